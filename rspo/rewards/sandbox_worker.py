"""The worker process: reads one row per line, verifies it within limits, and writes the result.

A row is a response with its answer, as JSON. `rspo.rewards.sandbox` starts workers.

The kernel enforces all limits, so they also hold inside a call to C that never returns:

- The time limit is in seconds of processor time, so that a busy machine changes no verdict. When it
  expires, SIGPROF ends the process.
- A row that sleeps or blocks uses no processor time. SIGALRM ends the process when
  `CLOCK_FACTOR` times the time limit has passed in wall-clock time.
- Beyond the memory limit, allocations fail.

On Linux, the kernel kills the worker when its parent ends, even during a row. On other systems, the
worker exits after the row.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import traceback

READY = "ready\n"  # what a worker writes once its libraries are imported
MEMORY_LIMIT = 2 * 2**30  # bytes of address space
CLOCK_FACTOR = 60  # limit of wall-clock time, divided by the limit of processor time
SIGNALS_OF_LIMITS = (signal.SIGPROF, signal.SIGALRM)
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
_MODULES = {
    "rules": "rspo.rewards.rules.equivalence",
    "math_verify": "rspo.rewards.math_verify",
}


def main(verifier: str, parent: int) -> None:
    """Verify rows until standard input closes.

    Args:
        parent: id of the process that started this one.
    """
    _end_with(parent)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not be read as a result
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    # A signal that the parent ignores would be ignored here too.
    for number in SIGNALS_OF_LIMITS:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses; the time limit remains
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        equivalent = importlib.import_module(_MODULES[verifier]).equivalent
    except Exception as error:  # the parent reports it
        results.write(" ".join(f"{type(error).__name__}: {error}".split()) + "\n")
        sys.exit(1)
    results.write(READY)
    results.flush()
    for line in sys.stdin:
        row = json.loads(line)
        _set_time_limit(row["seconds"])
        try:
            same = equivalent(row["accepted"], row["predictions"])
        except MemoryError:  # ends the worker, which may be unable to go on
            raise
        except Exception:  # an error in a verifier fails this row, not the worker
            traceback.print_exc()
            same = False
        _set_time_limit(0)
        results.write(json.dumps(same) + "\n")
        results.flush()


def _end_with(parent: int) -> None:
    """Make the kernel kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            sys.exit(1)


def _set_time_limit(seconds: float) -> None:
    """Set both timers; 0 stops them."""
    # ITIMER_PROF counts processor time and sends SIGPROF; ITIMER_REAL sends SIGALRM.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * CLOCK_FACTOR)
