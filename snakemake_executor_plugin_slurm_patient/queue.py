"""The jobs that Snakemake has in SLURM's queue, and how the state of a submitted job changes."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

_RULE = "rule_"  # begins the comment of every job that Snakemake's SLURM plugin submits
# What separates the columns and the jobs in the output of `squeue`. The folders and comments of
# users may contain `|` and line breaks, but hardly ASCII's own separators of fields and records.
_FIELD = "\x1f"
_RECORD = "\x1e"
_FIELDS = ("JobID", "UserName", "State", "RestartCnt", "WorkDir", "ReasonList", "Comment")
# The reasons for which SLURM itself holds a job until somebody releases it: the node failed to
# launch it, its start failed several times, or no node can run it. The state and the priority of
# these jobs are those of jobs that people hold, so only the reason distinguishes them.
HELD_BY_SLURM = ("launch failed requeued held", "JobHoldMaxRequeue", "BadConstraints")
HELD_BY_PEOPLE = (
    "JobHeldUser",
    "JobHeldAdmin",
    "job requeued in held state",
    "job requeued in special exit state",
)
RELEASES = 3  # how often this plugin releases a job that SLURM holds
# The beginning of environment variables with which users change what `squeue` and `scancel` do.
_OPTIONS = re.compile("(SQUEUE|SCANCEL)_")


class NoAnswer(WorkflowError):
    """A command of SLURM failed, or is not installed."""


def ask(*words: str) -> str:
    """Run a SLURM command and return its output.

    Raises: NoAnswer if the command is not installed, fails, or takes more than a minute.
    """
    environment = {name: value for name, value in os.environ.items() if not _OPTIONS.match(name)}
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # bytes that are not UTF-8, as in file names
            timeout=60,
            env=environment,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = " ".join(str(getattr(error, "stderr", None) or error).split())
        raise NoAnswer(f"SLURM does not answer ({words[0]}: {reason})") from None
    return done.stdout


def controller_answers() -> bool:
    """Whether SLURM's controller answers now."""
    try:
        return " is UP" in ask("scontrol", "ping")
    except NoAnswer:
        return False


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue, as `squeue` lists it.

    reason: why the job does not run; of a job that runs, the names of its nodes.
    comment: the rule and the wildcards, which the SLURM plugin writes there.
    """

    number: str
    user: str
    state: str
    restarts: int
    folder: str
    reason: str
    comment: str


def jobs_in(folder: str | Path) -> list[QueuedJob]:
    """The jobs that Snakemake submitted from a folder, for any user, and that have not ended."""
    path = os.path.realpath(folder)
    return [
        job
        for job in _jobs()
        if job.comment.startswith(_RULE) and os.path.realpath(job.folder) == path
    ]


def jobs_of(run: str) -> dict[str, QueuedJob]:
    """The jobs of a run, by number, including those that ended in the last minutes.

    All jobs of a run have its name.
    """
    # Restricting the query to one user makes the controller send fewer jobs.
    jobs = _jobs("--states=all", f"--user={os.getuid()}", f"--name={run}")
    return {job.number: job for job in jobs}


def _jobs(*options: str) -> Iterator[QueuedJob]:
    """The jobs that `squeue` lists with these options."""
    columns = [f"{name}:{_FIELD}" for name in _FIELDS[:-1]]
    columns.append(f"{_FIELDS[-1]}:{_RECORD}")
    output = ask("squeue", "--noheader", "--all", "--Format", ",".join(columns), *options)
    for record in output.split(_RECORD):
        fields = record.removeprefix("\n").split(_FIELD)
        if len(fields) != len(_FIELDS) or not fields[3].isdecimal():
            continue  # the end of the output, or a comment that Snakemake did not write
        number, user, state, restarts, folder, reason, comment = fields
        comment = os.fsencode(comment).decode(errors="replace")  # so that it can be printed
        yield QueuedJob(number, user, state, int(restarts), folder, reason.strip("()"), comment)


class Submission:
    """A submitted job, and how its state in the queue has changed.

    Args:
        info: Snakemake's `SubmittedJobInfo`, which differs between submissions of the same job.
        task: the rule and the wildcards of the job, for messages.
        say: prints a message.
    """

    def __init__(self, info: Any, task: str, say: Callable[[str], None]) -> None:
        self.info = info
        self.number = str(info.external_jobid)
        self._name = f"{task}: SLURM job {self.number}"
        self._say = say
        self._restarts = 0
        self._releases = 0
        self._reason = ""  # why it did not run at the previous look
        self._missing_since: float | None = None

    def say(self, message: str) -> None:
        """Print a line about this job."""
        self._say(f"{self._name} {message}")

    def is_missing(self, seconds: float) -> bool:
        """Whether the job has been missing for `seconds` or longer.

        Call this whenever a look at the queue does not find the job, or finds it although its start
        has ended. The time begins with the first such call after a call of `update`.
        """
        if self._missing_since is None:
            self._missing_since = time.monotonic()
        return time.monotonic() - self._missing_since >= seconds

    def update(self, job: QueuedJob) -> bool:
        """Print a line if the job was requeued or is held, and release it if SLURM itself holds it.

        Call this whenever a look at the queue finds the job.

        Returns: False if this has cancelled the job, because it had been released `RELEASES` times
            or could not be released; otherwise True.

        Raises: NoAnswer if the job could not be cancelled.
        """
        self._missing_since = None
        if job.restarts > self._restarts:
            self.say(f"was requeued (restart {job.restarts})")
        self._restarts = job.restarts
        if job.reason in HELD_BY_SLURM and not self._release(job):
            ask("scancel", self.number)
            return False
        if job.reason in HELD_BY_PEOPLE and job.reason != self._reason:
            self.say(f"is held ({job.reason}) and waits: scontrol release {self.number}")
        self._reason = job.reason
        return True

    def _release(self, job: QueuedJob) -> bool:
        """Release a job that SLURM holds; returns whether it was released.

        The job does not fail on the same node again, because SLURM drains a node on which a launch
        has failed.
        """
        if self._releases == RELEASES:
            return False
        try:
            ask("scontrol", "release", self.number)
        except NoAnswer as error:
            self.say(f"is held ({job.reason}) and could not be released: {error}")
            return False
        self._releases += 1
        self.say(f"was held ({job.reason}): released ({self._releases} of {RELEASES})")
        return True
