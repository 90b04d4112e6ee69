"""The jobs that Snakemake has in SLURM's queue: of a folder, or of one run."""

import os
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError
from rspo.slurm.cluster import Slurm

_RULE = "rule_"  # start of the comment of every job that Snakemake's plugin submits
# Folders and comments of other users may contain `|` and line breaks. ASCII's separators of fields
# and records do not occur in them.
_FIELD, _RECORD = "\x1f", "\x1e"
_FIELDS = ("JobID", "UserName", "State", "RestartCnt", "WorkDir", "Comment")


@dataclass(frozen=True)
class QueuedJob:
    number: str
    user: str
    state: str
    restarts: int
    folder: Path
    comment: str  # set by the plugin: rule and wildcards

    @property
    def task(self) -> str:
        """Such as `train small--rspo-pass--k4--n16--s0`."""
        return self.comment.removeprefix(_RULE).replace("_wildcards_", " ", 1)


def jobs_in(folder: Path) -> list[QueuedJob]:
    """Jobs that Snakemake submitted from this folder, for any user, and that have not ended.

    Raises: InputError if SLURM does not answer.
    """
    here = os.path.realpath(folder)
    return [job for job in _jobs() if os.path.realpath(job.folder) == here]


def jobs_of(run: str) -> list[QueuedJob]:
    """Jobs of one run of Snakemake, including those that ended minutes ago.

    Args:
        run: the job name that they share.

    Raises: InputError if SLURM does not answer.
    """
    # Restricting the query to one user makes the controller send fewer jobs.
    return _jobs("--states=all", f"--user={os.getuid()}", f"--name={run}")


def _jobs(*options: str) -> list[QueuedJob]:
    *others, last = _FIELDS
    layout = ",".join([*(f"{name}:{_FIELD}" for name in others), f"{last}:{_RECORD}"])
    output = Slurm().ask("squeue", "--noheader", "--all", "--Format", layout, *options)
    return [job for record in output.split(_RECORD) if (job := _job(record.removeprefix("\n")))]


def _job(record: str) -> QueuedJob | None:
    """Parse a record; None if Snakemake did not submit the job."""
    fields = record.split(_FIELD)
    if len(fields) != len(_FIELDS):
        return None
    number, user, state, restarts, folder, comment = fields
    if not restarts.isdecimal() or not comment.startswith(_RULE):
        return None
    printable = os.fsencode(comment).decode(errors="replace")
    return QueuedJob(number, user, state, int(restarts), Path(folder), printable)


def require_no_jobs_in(folder: Path) -> None:
    """Prevent that the same work is submitted twice.

    Raises: InputError that names the jobs of an earlier run, or of another user, in this folder.
    """
    jobs = jobs_in(folder)
    if not jobs:
        return
    named = ", ".join(f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    numbers = " ".join(job.number for job in jobs)
    raise InputError(
        f"{folder}: SLURM jobs of another run work in this folder: {named}{more}. Wait until they "
        f"end (their files are kept) or cancel them: scancel {numbers}"
    )
