"""The jobs that Snakemake has in SLURM's queue: of a folder, or of one run."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RULE = "rule_"  # start of the comment of every job that Snakemake's SLURM plugin submits
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
# Variables with which a user changes what these commands list or cancel.
_OPTIONS = re.compile("(SQUEUE|SCANCEL)_")


class NoAnswer(Exception):
    """A command of SLURM failed."""


def ask(*words: str) -> str:
    """Output of a SLURM command. Raises: NoAnswer."""
    environment = {key: value for key, value in os.environ.items() if not _OPTIONS.match(key)}
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
    try:
        return " is UP" in ask("scontrol", "ping")
    except NoAnswer:
        return False


@dataclass(frozen=True)
class QueuedJob:
    number: str
    user: str
    state: str
    restarts: int
    folder: str
    excluded: str  # nodes that it must not use, such as `n[1-2]`
    nodes_or_reason: str  # its nodes, or in parentheses why it does not run
    comment: str  # set by the SLURM plugin: rule and wildcards

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
    def user_hold(self) -> str:
        """The reason if a user or an administrator holds it, otherwise empty."""
        return self.reason if self.reason in _USER_HOLDS else ""


def jobs_in(folder: str | Path) -> list[QueuedJob]:
    """Jobs that Snakemake submitted from this folder, for any user, and that have not ended."""
    here = os.path.realpath(folder)
    jobs = (job for job in _jobs() if job.comment.startswith(_RULE))
    return [job for job in jobs if os.path.realpath(job.folder) == here]


def jobs_of(run: str) -> dict[str, QueuedJob]:
    """Jobs of one run of Snakemake by number, including those that ended minutes ago.

    Args:
        run: the job name that they share.
    """
    # Restricting the query to one user makes the controller send fewer jobs.
    jobs = _jobs("--states=all", f"--user={os.getuid()}", f"--name={run}")
    return {job.number: job for job in jobs}


def _jobs(*options: str) -> Iterator[QueuedJob]:
    *others, last = _FIELDS
    layout = ",".join([*(f"{name}:{_FIELD}" for name in others), f"{last}:{_RECORD}"])
    for record in ask("squeue", "--noheader", "--all", "--Format", layout, *options).split(_RECORD):
        fields = record.removeprefix("\n").split(_FIELD)
        if len(fields) != len(_FIELDS) or not fields[3].isdecimal():
            continue  # not submitted by Snakemake
        number, user, state, restarts, folder, excluded, nodes_or_reason, comment = fields
        comment = os.fsencode(comment).decode(errors="replace")  # can be printed
        excluded = excluded.replace("(null)", "")
        yield QueuedJob(
            number, user, state, int(restarts), folder, excluded, nodes_or_reason, comment
        )
