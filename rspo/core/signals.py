"""A request to stop, which SLURM can send before a time limit: SIGUSR1.

`rspo train` finishes the running step, writes a checkpoint and exits with a status of its own.
"""

import os
import signal

REQUEST = signal.SIGUSR1
# Neither done nor failed, try again: BSD's sysexits.h has this status for it.
STOPPED_STATUS = os.EX_TEMPFAIL  # 75

_noted: list[int] = []


class Stopped(Exception):
    """A training that stopped on request, behind a checkpoint of its last step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step} on request; the next run goes on from there")


def accept_requests() -> None:
    """Note a request instead of dying of it; to be called in the main thread, at the start.

    The main thread also blocks the signal, because the processes that it starts inherit the block:
    a batch system sends to all of a job, and verifiers must not die while their step is finished.
    """
    signal.signal(REQUEST, lambda number, frame: _noted.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {REQUEST})


def is_requested() -> bool:
    """Whether a request has come: to another thread, as numpy has some, or pending for this one."""
    return bool(_noted) or REQUEST in signal.sigpending()
