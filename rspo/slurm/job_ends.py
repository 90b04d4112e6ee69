"""Whether a SLURM job has ended although SLURM shows it as running.

A controller that loses its last seconds may forget that a job ended, and SLURM 22.05 then shows
the job as running for a long time. Therefore Snakemake inside each job holds the lock of a file,
which is named after the job and the number of its restarts.
"""

import os
from pathlib import Path

from rspo.core.locks import hold_until_exit, is_file_locked

STARTS = Path(".snakemake") / "rspo.starts"


def record_start() -> None:
    """Call it inside a job."""
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    hold_until_exit(STARTS / f"{os.environ['SLURM_JOB_ID']}.{restarts}")


def forget_starts(number: str) -> None:
    """Call it when a job was submitted: a controller that lost all jobs reuses their numbers."""
    for start in STARTS.glob(f"{number}.*"):
        start.unlink(missing_ok=True)


def has_ended(number: str, restarts: int) -> bool:
    """Whether a job recorded this start and none of its starts still runs.

    False if that is unknown: the job recorded no start yet, or the file system has no locks.
    """
    started = (STARTS / f"{number}.{restarts}").exists()
    return started and not any(map(is_file_locked, STARTS.glob(f"{number}.*")))
