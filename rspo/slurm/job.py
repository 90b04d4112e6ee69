"""The SLURM job that this process runs in, and how the signal before its time limit gets here."""

import os
import platform
import re
import signal
import subprocess
from dataclasses import dataclass
from functools import cache

from rspo.training.stopping import REQUEST

REQUEUED = "goes back into the queue"
SECONDS = 30  # for one of SLURM's commands to answer


@dataclass(frozen=True)
class Job:
    """What SLURM granted.

    gpus: as its controller counts them, on all nodes together, such as `gpu:h800:8`.
    devices: those of this job step on this node, as its environment says: `0,1,2,3,4,5,6,7`.
    """

    number: str
    nodes: str
    gpus: str
    gpu_count: int
    devices: str


@cache
def this_job() -> Job | None:
    """The job of this process; None outside SLURM, or if its controller does not answer."""
    if "SLURM_JOB_ID" not in os.environ:
        return None
    number, devices = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_STEP_GPUS", "")
    try:
        said = _answer("scontrol", "--details", "--oneliner", "show", "job", number)
    except (OSError, subprocess.SubprocessError):
        return Job(number, host_name(), "", len(devices.split(",")) if devices else 0, devices)
    fields = dict(word.split("=", 1) for word in said.split() if "=" in word)
    gpus = fields.get("JOB_GRES", "").replace("(null)", "")
    count = sum(int(found) for found in re.findall(r"gpu:(?:[^:,]+:)?(\d+)", gpus))
    return Job(number, fields.get("NodeList", ""), gpus, count, devices)


def host_name() -> str:
    """Of this machine; in a SLURM job, what SLURM calls it."""
    return os.environ.get("SLURMD_NODENAME", platform.node())


def name_of_this_job() -> str:
    """`SLURM job 12` for messages; empty outside SLURM."""
    return f"SLURM job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else ""


def requeue() -> str:
    """Put this job back into the queue, which ends it; what became of that, for a message."""
    if "SLURM_JOB_ID" not in os.environ:
        return ""
    number = os.environ["SLURM_JOB_ID"]
    try:
        _answer("scontrol", "requeue", number)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        return f"SLURM did not take job {number} back into its queue: {reason.strip()}"
    return f"SLURM job {number} {REQUEUED}"


def forward_requests() -> None:
    """Hand a request to stop on to every process below this one.

    Where SLURM keeps track of processes by cgroups it signals the first process of a job step
    alone, which is Snakemake; elsewhere it signals all of them, and this is a second time.
    """
    import psutil  # Snakemake's own, in whose process this runs

    def forward(number: int, frame: object) -> None:
        for process in psutil.Process().children(recursive=True):
            try:
                process.send_signal(REQUEST)
            except psutil.NoSuchProcess:
                continue

    signal.signal(REQUEST, forward)


def _answer(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout
