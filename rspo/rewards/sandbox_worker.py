"""The worker process: reads one row per line, verifies it within limits, writes the result.

The kernel enforces both limits, so they also hold inside a call to C that never returns. When the
time limit expires, SIGALRM ends the process. Beyond the memory limit, allocations fail. A worker
therefore outlives its parent by at most one time limit.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import traceback

READY = "ready\n"
_MODULES = {
    "rules": "rspo.rewards.rules.equivalence",
    "math_verify": "rspo.rewards.math_verify",
}


def main(verifier: str, memory_limit: int) -> None:
    """Serve until standard input closes.

    Args:
        verifier: `rules` or `math_verify`.
        memory_limit: bytes of address space.
    """
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not be read as a result
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses; the time limit remains
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    equivalent = importlib.import_module(_MODULES[verifier]).equivalent

    results.write(READY)
    results.flush()
    for line in sys.stdin:
        row = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, row["seconds"])
        try:
            same = equivalent(row["accepted"], row["predictions"])
        except MemoryError:
            raise
        except Exception:  # an error in a verifier fails this row, not the worker
            traceback.print_exc()
            same = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        results.write(json.dumps(same) + "\n")
        results.flush()
