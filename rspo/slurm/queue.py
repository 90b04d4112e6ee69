"""The jobs that Snakemake has in SLURM's queue: of a folder, or of one run."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError
from rspo.slurm.cluster import Slurm
from rspo.slurm.job_ends import has_ended
from rspo.slurm.messages import say

_RULE = "rule_"  # start of the comment of every job that Snakemake's plugin submits
# Folders and comments of other users may contain `|` and line breaks. ASCII's separators of fields
# and records do not occur in them.
_FIELD, _RECORD = "\x1f", "\x1e"
_FIELDS = (
    *("JobID", "UserName", "State", "RestartCnt", "WorkDir"),
    *("ExcNodes", "ReasonList", "Comment"),
)
# Reasons for which SLURM itself holds a job: the node failed to launch it, its start failed several
# times, or no node can run it. (State and priority do not distinguish these from holds of people.)
_SYSTEM_HOLDS = ("launch failed requeued held", "JobHoldMaxRequeue", "BadConstraints")
_USER_HOLDS = (
    *("JobHeldUser", "JobHeldAdmin"),
    *("job requeued in held state", "job requeued in special exit state"),
)


@dataclass(frozen=True)
class QueuedJob:
    number: str
    user: str
    state: str
    restarts: int
    folder: Path
    excluded: str  # nodes that it must not use, such as `n[1-2]`
    nodes_or_reason: str  # its nodes, or in parentheses why it does not run
    comment: str  # set by the plugin: rule and wildcards

    @property
    def nodes(self) -> str:
        return "" if self.reason else self.nodes_or_reason

    @property
    def reason(self) -> str:
        """Why it does not run; empty for a job that has nodes."""
        text = self.nodes_or_reason
        return text[1:-1] if text.startswith("(") else ""

    @property
    def system_hold(self) -> bool:
        """Whether SLURM itself holds it, so that it waits until it is released."""
        return self.reason in _SYSTEM_HOLDS

    @property
    def has_ended(self) -> bool:
        """Whether it has ended although SLURM shows it as running."""
        return self.state == "RUNNING" and has_ended(self.number, self.restarts)

    @property
    def user_hold(self) -> str:
        """The reason if a user or an administrator holds it, otherwise empty."""
        return self.reason if self.reason in _USER_HOLDS else ""


def jobs_in(folder: Path) -> list[QueuedJob]:
    """Jobs that Snakemake submitted from this folder, for any user, and that have not ended.

    Raises: InputError if SLURM does not answer.
    """
    here = os.path.realpath(folder)
    jobs = (job for job in _jobs() if job.comment.startswith(_RULE))
    return [job for job in jobs if os.path.realpath(job.folder) == here]


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
    number, user, state, restarts, folder, excluded, nodes_or_reason, comment = fields
    if not restarts.isdecimal():
        return None
    printable = os.fsencode(comment).decode(errors="replace")
    excluded = excluded.replace("(null)", "")
    place = Path(folder)
    return QueuedJob(
        number, user, state, int(restarts), place, excluded, nodes_or_reason, printable
    )


def require_no_jobs_in(folder: Path) -> None:
    """Prevent that the same work is submitted twice.

    Call it in the working directory, while holding Snakemake's lock. Cancels jobs of an earlier run
    that SLURM itself holds, because nobody would release them, and jobs that have ended although
    SLURM shows them as running.

    Raises: InputError that names the jobs of an earlier run, or of another user, in this folder.
    """
    jobs = [job for job in jobs_in(folder) if not _cancel_if_left(job)]
    if not jobs:
        return
    named = ", ".join(f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    numbers = " ".join(job.number for job in jobs)
    raise InputError(
        f"{folder}: SLURM jobs of another run work in this folder: {named}{more}. Wait until they "
        f"end (their files are kept) or cancel them: scancel {numbers}"
    )


def _cancel_if_left(job: QueuedJob) -> bool:
    """Cancel a job that nobody else would end; returns whether it was cancelled."""
    if job.system_hold:
        reason = f"was held ({job.reason})"
    elif job.has_ended:
        reason = "has ended without SLURM's notice"
    else:
        return False
    with suppress(InputError):  # it belongs to another user
        Slurm().ask("scancel", job.number)
        say(f"cancelled SLURM job {job.number} of an earlier run, which {reason}")
        return True
    return False
