"""The jobs that Snakemake has in SLURM's queue: of a folder, or of one run."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError

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
    command = ["squeue", "--noheader", "--all", "--Format", layout, *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip()
        raise InputError(f"SLURM does not answer (squeue: {reason}); try again later") from None
    records = done.stdout.split(_RECORD.encode())
    return [job for record in records if (job := _job(record.removeprefix(b"\n")))]


def _job(record: bytes) -> QueuedJob | None:
    """Parse a record; None if Snakemake did not submit the job."""
    fields = record.split(_FIELD.encode())
    if len(fields) != len(_FIELDS):
        return None
    number, user, state, restarts, _, comment = (field.decode(errors="replace") for field in fields)
    if not restarts.isdecimal() or not comment.startswith(_RULE):
        return None
    folder = Path(os.fsdecode(fields[_FIELDS.index("WorkDir")]))
    return QueuedJob(number, user, state, int(restarts), folder, comment)


def require_no_jobs_in(folder: Path) -> None:
    """Prevent that the same work is submitted twice.

    Raises: InputError that names the jobs of an earlier run, or of another user, in this folder.
    """
    found = jobs_in(folder)
    if not found:
        return
    named = ", ".join(f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    numbers = " ".join(job.number for job in found)
    raise InputError(
        f"{folder}: SLURM jobs of another run work in this folder: {named}{more}. Wait until they "
        f"end (their files are kept) or cancel them: scancel {numbers}"
    )
