"""A job of Snakemake, as the submitting process and every start of it in SLURM see it.

SLURM may start a job several times: after a lost node, a preemption or a request of its own, and
also after its success, when its controller has lost the last seconds. And a job that SLURM has
forgotten may still run while Snakemake submits it again. A folder that both sides share has, for
each job, what prevents that one start removes the results of another:

    KEY.json   what the submitting process knows of the job: its outputs, and how its step starts
    KEY.lock   held by the start that works; contains the name and the run of the last one
    KEY.done   written at the end of a successful start; contains the run that submitted it

The files stay, like those in Snakemake's own folder of metadata. This file uses the standard
library only, because each start of a job loads it.
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

SECONDS_BETWEEN_TRIES = 2.0  # of a start that waits for another one


@dataclass(frozen=True)
class Task:
    """A job of Snakemake that SLURM may start several times.

    file: KEY.json in the shared folder.
    run: name of the Snakemake run that submits it, the same for all of its jobs.
    outputs: absolute paths of its outputs.
    finished_suffix: ending of a file that the job's command writes beside each output when the
        output is whole; empty if it writes none.
    step: options of the `srun` that starts the step; None for a job that starts steps itself.
    submitted: when the run first submitted it, as a modification time on the shared file system.
    """

    file: Path
    run: str
    outputs: list[str]
    finished_suffix: str
    step: list[str] | None
    submitted: float = 0.0

    @classmethod
    def read(cls, file: Path) -> "Task":
        """The task whose file a submitting process has written."""
        return cls(file, **json.loads(file.read_text()))

    def write(self) -> None:
        """Write the file at a submission, which may have other options than an earlier one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        partial.touch()
        submitted = partial.stat().st_mtime
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
        """Record that a start has succeeded."""
        self._done.write_text(self.run)

    def is_finished(self) -> bool:
        """Whether all outputs exist, and a start of the task has finished them in this run."""
        if not self.outputs or not all(map(_exists, self.outputs)):
            return False
        with suppress(FileNotFoundError):
            if self._done.read_text() == self.run:
                return True
        # A start of an earlier run, which SLURM has forgotten, may have had other settings.
        _, _, run = _read(self._lock).partition(" ")
        suffix = self.finished_suffix
        return bool(suffix) and run == self.run and all(map(self._is_whole, self.outputs))

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
        """Wait until no other start of the task works, and hold the lock."""
        with self._lock.open("a+") as lock:
            is_waiting = False
            while not _acquire(lock.fileno(), fcntl.LOCK_EX):
                if not is_waiting:
                    other, _, _ = _read(self._lock).partition(" ")
                    say(f"waiting for another start of this job ({other}) to end")
                is_waiting = True
                time.sleep(SECONDS_BETWEEN_TRIES)
            yield

    def record_start(self, start: str) -> None:
        """Write the name of a start that holds the lock, `NUMBER.RESTARTS` of the SLURM job."""
        self._lock.write_text(f"{start} {self.run}")


def file_of(job: Any, folder: Path) -> Path:
    """The file of the task of one of Snakemake's jobs, the same in every run."""
    name = json.dumps([job.name, *map(str, job.output)])
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def has_ended(file: Path, start: str) -> bool:
    """Whether a start has held the lock of the task with this file, and holds it no longer."""
    lock = file.with_suffix(".lock")
    try:
        with lock.open() as opened:
            return opened.read().startswith(f"{start} ") and _acquire(
                opened.fileno(), fcntl.LOCK_SH
            )
    except FileNotFoundError:
        return False


def last_starts(folder: Path) -> dict[str, Path]:
    """The file of each task, by the name of its last start."""
    return {
        _read(lock).partition(" ")[0]: lock.with_suffix(".json") for lock in folder.glob("*.lock")
    }


def _read(lock: Path) -> str:
    return lock.read_text() if lock.exists() else ""


def _exists(path: str) -> bool:
    """Whether a path exists; a file server's client may remember that another host lacked it."""
    folder, name = os.path.split(path)
    try:
        return name in os.listdir(folder)
    except OSError:
        return False


def _acquire(descriptor: int, mode: int) -> bool:
    """Lock a file unless another process has locked it; closing the file ends the lock."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return mode == fcntl.LOCK_EX
    return True
