"""What ends a command from outside: a request to stop, or the end of the Snakemake that started it.

The request to stop is SIGUSR1, which SLURM can send before a time limit. `rspo train` then finishes
the current step, writes a checkpoint and exits with `STOPPED_STATUS`.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from rspo.core.slurm_job import host_name

REQUEST = signal.SIGUSR1
# The environment variable that the workflow sets for the commands of its rules: the process ID of
# Snakemake, and where this ID is valid.
SNAKEMAKE = "RSPO_SNAKEMAKE"
SECONDS_BETWEEN_LOOKS = 1.0
STOPPED_STATUS = os.EX_TEMPFAIL  # 75: a failure for now, so try again (BSD's sysexits.h)

# The numbers of the signals received so far. A list, so that the handler needs no `global`.
_received: list[int] = []


class Stopped(Exception):
    """A training stopped on request, after it wrote a checkpoint of its last step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step} on request; the next run resumes there")


def accept_requests() -> None:
    """Record requests to stop, which would otherwise end this process.

    Call it in the main thread, before this process starts others. It also blocks the signal in this
    thread, because child processes inherit the mask: SLURM signals every process of a job, and the
    workers of the verifier must survive until the step is finished. The handler runs if another
    thread, which does not block the signal, receives it.
    """
    signal.signal(REQUEST, lambda number, frame: _received.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {REQUEST})


def is_requested() -> bool:
    """Whether a request to stop has arrived.

    This thread blocks the signal, so for it the signal stays pending. A thread that existed before
    `accept_requests`, such as one of a library, may have received the signal instead.
    """
    return bool(_received) or REQUEST in signal.sigpending()


def name_of_snakemake() -> str:
    """The value that Snakemake sets `SNAKEMAKE` to: its process ID, and where this ID is valid.

    Only Snakemake's own process calls this, because the ID is that of the calling process.
    """
    return f"{os.getpid()} {_place()}"


def _place() -> str:
    """Where a process ID is valid: a host and a PID namespace. A container may have its own."""
    path = Path("/proc/self/ns/pid")  # only Linux has it
    namespace = path.readlink() if path.exists() else ""
    return f"{host_name()} {namespace}"


def end_with_snakemake() -> None:
    """If Snakemake started this process, send SIGTERM to this process when that Snakemake ends.

    A killed Snakemake leaves the commands of its rules running. The next Snakemake would delete the
    results of these commands as incomplete, and would share the GPUs with them.
    """
    pid, _, place = os.environ.get(SNAKEMAKE, "").partition(" ")
    # `srun` starts processes on other nodes, where the ID may be that of any process.
    if not pid.isdecimal() or place != _place():
        return
    import psutil  # here, because the light install lacks it

    def watch() -> None:
        # A process that nobody waits for stays as a zombie, which psutil counts as running.
        with suppress(psutil.NoSuchProcess):
            snakemake = psutil.Process(int(pid))
            while snakemake.is_running() and snakemake.status() != psutil.STATUS_ZOMBIE:
                time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
