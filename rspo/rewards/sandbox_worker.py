"""The worker process: reads a row a line, judges it within limits, writes the verdict.

Both limits are the kernel's, so they hold whatever the row is doing, even inside one endless call
to C: over the time limit SIGALRM ends the process, over the memory limit allocations fail. For
the same reason a worker can never outlive its parent by more than one time limit.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import traceback

READY = "ready\n"


def main(memory_limit: int) -> None:
    """Serve until standard input closes.

    Args:
        memory_limit: bytes of address space.
    """
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be read as a verdict
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses; the time limit remains
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    from rspo.rewards.rules.equivalence import equivalent

    verdicts.write(READY)
    verdicts.flush()
    for line in sys.stdin:
        row = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, row["seconds"])
        try:
            same = equivalent(row["accepted"], row["predictions"])
        except MemoryError:
            raise
        except Exception:  # a mistake of ours costs its row, not the worker
            traceback.print_exc()
            same = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        verdicts.write(json.dumps(same) + "\n")
        verdicts.flush()
