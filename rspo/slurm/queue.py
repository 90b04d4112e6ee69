"""The jobs of this folder that are in SLURM's queue."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rspo.errors import InputError

_RULE = "rule_"  # begins the comment of each job that Snakemake's plugin submits


@dataclass(frozen=True)
class QueuedJob:
    number: str
    user: str
    state: str
    restarts: int
    comment: str  # the plugin's: rule and wildcards

    @property
    def task(self) -> str:
        """Such as `train small--rspo-pass--k4--n16--s0`."""
        return self.comment.removeprefix(_RULE).replace("_wildcards_", " ", 1)


def jobs_in(folder: Path, *options: str) -> list[QueuedJob]:
    """Snakemake's jobs of anybody that work in a folder and have not ended.

    Args:
        options: more of `squeue`'s, such as `--states=all`: also those that ended minutes ago.

    Raises: InputError if SLURM does not answer.
    """
    layout = "JobID:|,UserName:|,State:|,RestartCnt:|,WorkDir:|,Comment:|"
    command = ["squeue", "--noheader", "--all", "--Format", layout, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise InputError(f"SLURM does not answer (squeue: {reason}); try again later") from None
    found = []
    for line in done.stdout.splitlines():
        number, user, state, restarts, place, comment = line.removesuffix("|").split("|", 5)
        if comment.startswith(_RULE) and os.path.realpath(place) == os.path.realpath(folder):
            found.append(QueuedJob(number, user, state, int(restarts), comment))
    return found


def require_no_jobs_in(folder: Path) -> None:
    """Nothing may be submitted twice.

    Raises: InputError that names the jobs of an earlier run, or of somebody else's, in this folder.
    """
    found = jobs_in(folder)
    if not found:
        return
    named = ", ".join(f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    numbers = " ".join(job.number for job in found)
    raise InputError(
        f"{folder}: SLURM jobs of another run work in this folder: {named}{more}. Wait until they "
        f"have ended (their files are kept) or end them: scancel {numbers}"
    )
