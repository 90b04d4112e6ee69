"""The SLURM job that this process runs in."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from functools import cache

SECONDS = 30  # the timeout of a SLURM command
# The group is the number of GPUs in an entry of SLURM's lists: 8 and 2 in "gpu:h800:8,gpu:2".
_GPU_COUNTS = re.compile(r"gpu:(?:[^:,]+:)?(\d+)")


@dataclass(frozen=True)
class Job:
    """What SLURM granted to a job.

    number: the job ID, as text.
    nodes: the names of the nodes, in SLURM's notation, such as `node[01-02]`.
    gpus: the GPUs on all nodes together, such as `gpu:h800:8`; empty if there are none, or if SLURM
        does not answer.
    gpu_count: the number of these GPUs.
    """

    number: str
    nodes: str
    gpus: str
    gpu_count: int


@cache
def this_job() -> Job | None:
    """The job of this process; None outside SLURM.

    If SLURM's controller does not answer, the fields describe only this node, as far as environment
    variables do: `gpus` is empty, although `gpu_count` may be known.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return None
    number = os.environ["SLURM_JOB_ID"]
    try:
        fields = _fields(number)
    except (OSError, subprocess.SubprocessError):
        devices = os.environ.get("SLURM_STEP_GPUS", "")  # indices, such as 0,1,2,3
        count = len(devices.split(",")) if devices else 0
        return Job(number, host_name(), "", count)
    gpus = fields.get("JOB_GRES", "").replace("(null)", "")  # SLURM's word for none
    count = sum(int(digits) for digits in _GPU_COUNTS.findall(gpus))
    return Job(number, fields.get("NodeList", ""), gpus, count)


def host_name() -> str:
    """The name of this machine; in a SLURM job, the name that SLURM has for it."""
    return os.environ.get("SLURMD_NODENAME", platform.node())


def name_of_this_job() -> str:
    """`SLURM job 12` for messages; empty outside SLURM."""
    return f"SLURM job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else ""


def _fields(number: str) -> dict[str, str]:
    """The fields that `scontrol` prints about a job, such as `JobState`.

    Raises: OSError or SubprocessError if SLURM does not answer.
    """
    done = subprocess.run(
        ["scontrol", "--details", "--oneliner", "show", "job", number],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
