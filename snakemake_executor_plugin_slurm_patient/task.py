"""A job of Snakemake, as the submitting process and every start of it in SLURM see it.

SLURM may start a job several times: after a lost node, a preemption or a request of its own, and
also after its success, when its controller has lost the last seconds. And a job that SLURM has
forgotten may still run while Snakemake submits it again. A folder that both sides share has, for
each job, what prevents that one start removes the results of another:

    KEY.json   what the submitting process knows of the job: its outputs, and how its step starts
    KEY.lock   held by the start that works; contains the name of the last one
    KEY.done   written at the end of a successful start; contains the run that submitted it
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
    """

    file: Path
    run: str
    outputs: list[str]
    finished_suffix: str
    step: list[str] | None

    @classmethod
    def of_job(cls, job: Any, folder: Path, **settings: Any) -> "Task":
        """The task of one of Snakemake's jobs. Its key depends on the job only, not on the run."""
        outputs = [os.path.abspath(output) for output in job.output]
        name = json.dumps([job.name, *outputs])
        key = hashlib.sha256(name.encode()).hexdigest()[:16]
        return cls(folder / f"{key}.json", outputs=outputs, **settings)

    @classmethod
    def read(cls, file: Path) -> "Task":
        """The task whose file a submitting process has written."""
        return cls(file, **json.loads(file.read_text()))

    def write(self) -> None:
        """Write the file at the first submission of the task in a run.

        Its modification time tells later whether an output is newer than that. A submission after a
        failed try leaves it as it is.
        """
        with suppress(OSError, ValueError, TypeError):
            if Task.read(self.file).run == self.run:
                return
        content = asdict(self)
        del content["file"]
        self._done.unlink(missing_ok=True)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
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
        if not self.outputs or not all(map(os.path.exists, self.outputs)):
            return False
        with suppress(FileNotFoundError):
            if self._done.read_text() == self.run:
                return True
        return bool(self.finished_suffix) and all(map(self._is_whole, self.outputs))

    def _is_whole(self, output: str) -> bool:
        """Whether the command has finished an output since the task was first submitted."""
        try:
            finished = os.stat(output + self.finished_suffix).st_mtime
        except OSError:
            return False
        return finished >= self.file.stat().st_mtime

    # --- one start at a time ------------------------------------------------------------------

    @property
    def _lock(self) -> Path:
        return self.file.with_suffix(".lock")

    @contextmanager
    def locked(self, start: str, say: Callable[[str], None]) -> Iterator[None]:
        """Wait until no other start of the task works, and hold the lock.

        Args:
            start: the name of this start, `NUMBER.RESTARTS` of the SLURM job.
        """
        with self._lock.open("a+") as lock:
            is_waiting = False
            while not _acquire(lock.fileno(), fcntl.LOCK_EX):
                lock.seek(0)
                if not is_waiting:
                    say(f"waiting for another start of this job ({lock.read()}) to end")
                is_waiting = True
                time.sleep(SECONDS_BETWEEN_TRIES)
            lock.truncate(0)
            lock.write(start)
            lock.flush()
            yield

    def has_ended(self, start: str) -> bool:
        """Whether a start has held the lock, and holds it no longer."""
        try:
            with self._lock.open() as lock:
                return lock.read() == start and _acquire(lock.fileno(), fcntl.LOCK_SH)
        except FileNotFoundError:
            return False


def tasks_in(folder: Path) -> Iterator[Task]:
    """The tasks that any run has submitted."""
    for file in folder.glob("*.json"):
        yield Task.read(file)


def _acquire(descriptor: int, mode: int) -> bool:
    """Lock a file unless another process has locked it; closing the file ends the lock."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return mode == fcntl.LOCK_EX
    return True
