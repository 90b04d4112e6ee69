"""The SLURM job that this process runs in."""

import os
import platform
import re
import signal
import subprocess
from dataclasses import dataclass
from functools import cache

SECONDS = 30  # timeout of a SLURM command


@dataclass(frozen=True)
class Job:
    """What SLURM granted to a job.

    gpus: GPUs on all nodes together, such as `gpu:h800:8`; empty if unknown or none.
    gpu_count: their number.
    """

    number: str
    nodes: str
    gpus: str
    gpu_count: int


@cache
def this_job() -> Job | None:
    """The job of this process; None outside SLURM.

    If SLURM's controller does not answer, the job has what the environment says of this node.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return None
    number = os.environ["SLURM_JOB_ID"]
    try:
        fields = _fields("--details", number)
    except (OSError, subprocess.SubprocessError):
        devices = os.environ.get("SLURM_STEP_GPUS", "")  # indices, such as 0,1,2,3
        return Job(number, host_name(), "", len(devices.split(",")) if devices else 0)
    gpus = fields.get("JOB_GRES", "").replace("(null)", "")
    count = sum(int(digits) for digits in re.findall(r"gpu:(?:[^:,]+:)?(\d+)", gpus))
    return Job(number, fields.get("NodeList", ""), gpus, count)


def host_name() -> str:
    """This machine's name; in a job, SLURM's name of it."""
    return os.environ.get("SLURMD_NODENAME", platform.node())


def name_of_this_job() -> str:
    """`SLURM job 12` for messages; empty outside SLURM."""
    return f"SLURM job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else ""


def requeue() -> str:
    """Put this job back into the queue, which ends it; returns a message about the outcome."""
    if "SLURM_JOB_ID" not in os.environ:
        return ""
    number = os.environ["SLURM_JOB_ID"]
    try:
        _output("scontrol", "requeue", number)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        return f"SLURM could not requeue job {number}: {reason.strip()}"
    return f"SLURM job {number} is requeued"


def is_preempted() -> bool:
    """Whether SLURM is about to preempt this job, which is in its grace time.

    False for a job that is cancelled during its grace time, which must not be requeued, and for a
    job that was preempted earlier and has started again since.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return False
    try:
        fields = _fields(os.environ["SLURM_JOB_ID"])
    except (OSError, subprocess.SubprocessError):
        return False
    preempted = fields.get("PreemptTime", "None")
    return (
        fields.get("JobState") in ("RUNNING", "SIGNALING")  # the latter while it sends SIGTERM
        and preempted[:1].isdigit()
        and preempted >= fields.get("StartTime", "")  # both such as 2026-01-31T23:59:59
    )


def _fields(*options_and_number: str) -> dict[str, str]:
    *options, number = options_and_number
    words = _output("scontrol", *options, "--oneliner", "show", "job", number).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def _output(*command: str) -> str:
    """What a SLURM command printed.

    The command inherits the blocked SIGTERM: SLURM may send one to every process of this job.
    """
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    return done.stdout
