"""Whether a SLURM job has ended although SLURM shows it as running.

A controller that loses its last seconds may forget that a job ended, and SLURM 22.05 then shows
the job as running for a long time. Therefore Snakemake inside each job holds the lock of a file,
which is named after the job and the number of its restarts, and touches it every few seconds. A job
has ended if its file is neither locked nor touched: a lock alone may be local to a node.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from rspo.core.locks import hold_until_exit, is_file_locked

STARTS = Path(".snakemake") / "rspo.starts"
SECONDS_BETWEEN_TOUCHES = 10.0
# Longer than file servers hide a new modification time from other hosts (NFS: 60 seconds).
SECONDS_OF_SILENCE = 120.0
_CLOCK = STARTS / "now"  # its modification time is the time of the file server


def record_start() -> None:
    """Call it inside a job."""
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    start = STARTS / f"{os.environ['SLURM_JOB_ID']}.{restarts}"
    with suppress(OSError):  # as on a full disk: the job itself reports it
        hold_until_exit(start)
        threading.Thread(target=_touch, args=[start], daemon=True).start()


def _touch(start: Path) -> None:
    while True:
        with suppress(OSError):
            start.touch()
        time.sleep(SECONDS_BETWEEN_TOUCHES)


def forget_starts(number: str) -> None:
    """Call it when a job was submitted: a controller that lost all jobs reuses their numbers."""
    for start in STARTS.glob(f"{number}.*"):
        start.unlink(missing_ok=True)


def has_ended(number: str, restarts: int) -> bool:
    """Whether a job recorded this start, and none of its starts is locked or was touched lately."""
    starts = list(STARTS.glob(f"{number}.*"))
    if STARTS / f"{number}.{restarts}" not in starts or any(map(is_file_locked, starts)):
        return False
    try:
        _CLOCK.touch()
        latest = max(start.stat().st_mtime for start in starts)
        return _CLOCK.stat().st_mtime - latest > SECONDS_OF_SILENCE
    except OSError:  # a start was removed right now, or the disk is full
        return False
