"""Runs Snakemake inside a SLURM job, and shows meanwhile that the job is alive.

    python heartbeat.py FOLDER SECONDS -m snakemake ...

A controller that lost its last seconds may forget a job that runs, and may show a job as running
that has ended. So each start of a job touches a file in FOLDER every SECONDS, named after the job's
number and the number of its restarts. At the end it writes Snakemake's exit status to it.
"""

import os
import runpy
import shlex
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

START = "slurm-patient: start "  # of the line that begins the output of each start of a job
TOUCHES = 12  # of a file, in the time after which a job counts as ended


@dataclass(frozen=True)
class Heartbeats:
    """What the jobs of a workflow show in a folder.

    seconds: how long a job shows no sign of life before it counts as ended.
    """

    folder: Path
    seconds: float

    def python(self, python: str) -> str:
        """The command that replaces `python` in the command line of a job."""
        words = [str(Path(__file__).resolve()), str(self.folder), f"{self.seconds / TOUCHES:g}"]
        return f"{python} {shlex.join(words)}"

    def forget(self, number: str) -> None:
        """Call it at a submission: a controller that lost its jobs reuses their numbers."""
        for start in self.folder.glob(f"{number}.*"):
            start.unlink(missing_ok=True)

    def is_alive(self, number: str) -> bool:
        """Whether a start without an exit status was touched in the last `seconds`."""
        clock = self.folder / "now"  # its modification time is the time of the file server
        try:
            starts = [path for path in self.folder.glob(f"{number}.*") if not path.stat().st_size]
            if not starts:
                return False
            clock.touch()
            latest = max(start.stat().st_mtime for start in starts)
            return clock.stat().st_mtime - latest <= self.seconds
        except OSError:  # a file was removed right now, or the disk is full
            return True

    def has_ended(self, number: str, restarts: int) -> bool:
        """Whether this start of the job began, and the job is not alive."""
        return (self.folder / f"{number}.{restarts}").exists() and not self.is_alive(number)

    def has_succeeded(self, number: str) -> bool:
        """Whether Snakemake ended without an error in one of the job's starts."""
        with suppress(OSError):
            return any(start.read_text() == "0" for start in self.folder.glob(f"{number}.*"))
        return False


def _touch(start: Path, seconds: float) -> None:
    while True:
        time.sleep(seconds)
        with suppress(OSError):
            start.touch()


def main(folder: Path, seconds: float) -> None:
    number, restarts = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_RESTART_COUNT", "0")
    print(f"{START}{restarts} of job {number} on {os.environ.get('SLURMD_NODENAME')}", flush=True)
    start = folder / f"{number}.{restarts}"
    with suppress(OSError):  # as on a full disk, of which the job itself reports more
        folder.mkdir(parents=True, exist_ok=True)
        start.touch()
        threading.Thread(target=_touch, args=[start, seconds], daemon=True).start()
    try:
        runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        with suppress(OSError):
            start.write_text(str(end.code or 0))
        raise


if __name__ == "__main__":
    _, folder, seconds, _, *arguments = sys.argv
    sys.argv, sys.path[0] = arguments, os.getcwd()  # as with `python -m`
    main(Path(folder), float(seconds))
