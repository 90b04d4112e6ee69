"""SIGUSR1, the request to stop that SLURM can send before a time limit.

`rspo train` then finishes the current step, writes a checkpoint and exits with `STOPPED_STATUS`.
"""

import os
import signal

REQUEST = signal.SIGUSR1
STOPPED_STATUS = os.EX_TEMPFAIL  # 75: not an error, try again (BSD's sysexits.h)

_received: list[int] = []


class Stopped(Exception):
    """Training stopped on request, after writing a checkpoint of its last step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step} on request; the next run resumes there")


def accept_requests() -> None:
    """Record requests to stop instead of dying of them. Call it in the main thread, at the start.

    It also blocks the signal in the main thread, because child processes inherit the block. SLURM
    sends the signal to every process of a job, and the verifiers' workers must finish the step.
    """
    signal.signal(REQUEST, lambda number, frame: _received.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {REQUEST})


def is_requested() -> bool:
    """Whether a request was received, by another thread or pending in this one."""
    return bool(_received) or REQUEST in signal.sigpending()
