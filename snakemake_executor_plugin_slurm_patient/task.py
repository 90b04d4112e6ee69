"""A job of Snakemake, as the submitting process and all of its starts in SLURM know it.

SLURM may start a job several times: after a lost node, after a preemption, when the job asks for
it, and even after the job's success if the controller has lost its last seconds. A job that SLURM
has forgotten may also still run while Snakemake submits it again. Three files for each job keep one
start from removing the results of another. They are in a folder that the submitting process and the
nodes share:

    KEY.json   what the submitting process knows of the job: its outputs, and how its step starts
    KEY.lock   locked by the start that works; contains the name and the run of the last start
    KEY.done   written at the end of a successful start; contains the run that submitted the job

KEY is a hash of the job's rule and outputs (`file_of`), so it is the same in every run.
The files stay after the run, as Snakemake's own metadata do. This module uses the standard library
only, because each start of a job loads it.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_TRIES = 2.0  # while a start waits for another one to end


@dataclass(frozen=True)
class Task:
    """A job of Snakemake that SLURM may start several times.

    file: the path of KEY.json in the shared folder.
    run: the name of the Snakemake run that submits the job, which all jobs of the run share.
    outputs: the absolute paths of the job's outputs.
    finished_suffix: the ending of a file that the job's command writes beside each output when the
        output is whole; empty if the command writes no such files.
    step: the options of the `srun` that starts the step; None if the job starts its steps itself.
    submitted: the Unix time at which the run first submitted the job. It is the time of the shared
        file system, because the clocks of nodes may differ.
    """

    file: Path
    run: str
    outputs: list[str]
    finished_suffix: str
    step: list[str] | None
    submitted: float = 0.0

    @classmethod
    def read(cls, file: Path) -> "Task":
        """Read the task whose file a submitting process has written."""
        return cls(file, **json.loads(file.read_text()))

    def write(self) -> None:
        """Write the file at a submission.

        This replaces the file of an earlier submission, which may have had other options. The time
        of the first submission in the same run is kept.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        # The time of this file is that of the file server, which `_is_whole` compares with the
        # times of other files there. The clock of this host may differ.
        partial.touch()
        submitted = partial.stat().st_mtime
        # The file may be missing, damaged, or of another version of this class.
        with suppress(OSError, ValueError, TypeError):
            earlier = Task.read(self.file)
            if earlier.run == self.run:
                submitted = earlier.submitted
        content = asdict(self) | {"submitted": submitted}
        del content["file"]
        partial.write_text(json.dumps(content))
        partial.replace(self.file)

    # --- the end of a start -------------------------------------------------------------------

    @property
    def _done(self) -> Path:
        return self.file.with_suffix(".done")

    def record_success(self) -> None:
        """Record that a start has succeeded in this run."""
        self._done.write_text(self.run)

    def is_finished(self) -> bool:
        """Whether all outputs exist, and a start of the task has finished them in this run.

        The evidence is a recorded success, or a file with the finished suffix beside each output.
        """
        if not self.outputs or not all(_exists(output) for output in self.outputs):
            return False
        with suppress(FileNotFoundError):
            if self._done.read_text() == self.run:
                return True
        # A start of an earlier run, which SLURM has forgotten, may have written the files with
        # other settings. So they count only if the last start belonged to this run.
        _, _, run = _read(self._lock).partition(" ")
        if not self.finished_suffix or run != self.run:
            return False
        return all(self._is_whole(output) for output in self.outputs)

    def _is_whole(self, output: str) -> bool:
        """Whether the command has finished an output since the task was first submitted."""
        try:
            return os.stat(output + self.finished_suffix).st_mtime >= self.submitted
        except OSError:
            return False

    # --- one start at a time ------------------------------------------------------------------

    @property
    def _lock(self) -> Path:
        return self.file.with_suffix(".lock")

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the task while the block runs. If another start holds it, wait first.

        Args:
            say: prints a message.
        """
        with self._lock.open("a+") as lock:
            is_waiting = False
            while not _acquire(lock.fileno(), fcntl.LOCK_EX):
                if not is_waiting:  # print the line once
                    other, _, _ = _read(self._lock).partition(" ")
                    say(f"waiting for another start of this job ({other}) to end")
                is_waiting = True
                time.sleep(SECONDS_BETWEEN_TRIES)
            yield

    def record_start(self, start: str) -> None:
        """Write the name of the start that holds the lock: `NUMBER.RESTARTS` of the SLURM job."""
        self._lock.write_text(f"{start} {self.run}")


def file_of(job: Any, folder: Path) -> Path:
    """The path of the file for a job of Snakemake, which is the same in every run."""
    words = [job.name] + [str(output) for output in job.output]
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()
    return folder / f"{digest[:16]}.json"


def has_ended(file: Path, start: str) -> bool:
    """Whether a start was the last one to hold the lock of a task, and holds it no longer.

    Args:
        file: the file of the task.
        start: the name of the start, as `Task.record_start` writes it.
    """
    try:
        with file.with_suffix(".lock").open() as lock:
            is_last_start = lock.read().startswith(f"{start} ")
            return is_last_start and _acquire(lock.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def last_starts(folder: Path) -> dict[str, Path]:
    """The file of each task, by the name of its last start."""
    files = {}
    for lock in folder.glob("*.lock"):
        start, _, _ = _read(lock).partition(" ")
        files[start] = lock.with_suffix(".json")
    return files


def _read(lock: Path) -> str:
    """The name of the last start, a space, and its run; empty before the first start."""
    return lock.read_text() if lock.exists() else ""


def _exists(path: str) -> bool:
    """Whether a path exists, according to the list of files in its folder.

    A host that uses a file server may remember for a while that a path did not exist, although
    another host has created it since. Listing the folder avoids this memory.
    """
    folder, name = os.path.split(path)
    try:
        return name in os.listdir(folder)
    except OSError:
        return False


def _acquire(descriptor: int, mode: int) -> bool:
    """Lock a file unless another process has locked it. Closing the file ends the lock.

    Returns: whether the file is locked. On a file system without locks, an exclusive lock counts
        as acquired, so that jobs run; a shared one does not, so that no start counts as ended.
    """
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return mode == fcntl.LOCK_EX
    return True
