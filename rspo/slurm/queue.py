"""The jobs of this folder that are in SLURM's queue."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rspo.errors import InputError

JOB_PREFIX = "rspo"  # slurm/config.yaml: slurm-jobname-prefix


@dataclass(frozen=True)
class QueuedJob:
    number: str
    user: str
    state: str
    comment: str  # the plugin's: rule and wildcards


def jobs_in(folder: Path) -> list[QueuedJob]:
    """Jobs of anybody that work in a folder and have not ended.

    Raises: InputError if SLURM does not answer.
    """
    layout = "%i|%u|%T|%j|%Z|%k"
    command = ["squeue", "--noheader", "--all", "--format", layout]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise InputError(f"SLURM does not answer (squeue: {reason}); try again later") from None
    found = []
    for line in done.stdout.splitlines():
        number, user, state, name, place, comment = line.split("|", 5)
        if name.startswith(JOB_PREFIX) and os.path.realpath(place) == os.path.realpath(folder):
            found.append(QueuedJob(number, user, state, comment))
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
