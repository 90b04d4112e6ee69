"""Signals that end a command: a request to stop, and the end of the Snakemake that started it.

SLURM can send SIGUSR1, the request to stop, before a time limit. `rspo train` then finishes the
current step, writes a checkpoint and exits with `STOPPED_STATUS`.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from rspo.core.slurm_job import host_name

REQUEST = signal.SIGUSR1
# The variable that Snakemake sets for its rules: its process ID, and where this ID is valid.
SNAKEMAKE = "RSPO_SNAKEMAKE"
SECONDS_BETWEEN_LOOKS = 1.0
STOPPED_STATUS = os.EX_TEMPFAIL  # 75: not an error, try again (BSD's sysexits.h)

_received: list[int] = []


class Stopped(Exception):
    """Training stopped on request, after writing a checkpoint of its last step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step} on request; the next run resumes there")


def accept_requests() -> None:
    """Record requests to stop instead of dying of them. Call it in the main thread, at the start.

    It also blocks the signal: children inherit the mask, SLURM signals every process of a job, and
    the verifier's workers must survive until the step is finished.
    """
    signal.signal(REQUEST, lambda number, frame: _received.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {REQUEST})


def is_requested() -> bool:
    """Whether a request was received, by another thread or pending in this one."""
    return bool(_received) or REQUEST in signal.sigpending()


def name_of_snakemake() -> str:
    """The value of `SNAKEMAKE` in the process of Snakemake itself."""
    return f"{os.getpid()} {_place()}"


def _place() -> str:
    """Where a process ID is valid: the host, and the PID namespace, which a container may have."""
    path = Path("/proc/self/ns/pid")  # only Linux has it
    namespace = path.readlink() if path.exists() else ""
    return f"{host_name()} {namespace}"


def end_with_snakemake() -> None:
    """Send SIGTERM to this process once the Snakemake that started it has ended, if one did.

    A killed Snakemake leaves the commands of its rules running. The next Snakemake would delete the
    results of these commands as incomplete, and share their GPUs.
    """
    pid, _, place = os.environ.get(SNAKEMAKE, "").partition(" ")
    if not pid.isdecimal() or place != _place():  # `srun` starts processes on other nodes
        return
    import psutil  # here, because the light install lacks it

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            snakemake = psutil.Process(int(pid))
            while snakemake.is_running() and snakemake.status() != psutil.STATUS_ZOMBIE:
                time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
