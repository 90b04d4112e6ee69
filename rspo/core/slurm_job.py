"""The SLURM job that this process runs in, and how a request to stop gets here.

SLURM sends one before the time limit, and a SIGTERM where a preempted job has a grace time.
"""

import os
import platform
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from rspo.core.signals import REQUEST

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


def is_preempted() -> bool:
    """Whether SLURM has given this job a grace time, after which its nodes are for another.

    A job that it cancels meanwhile is to stay away, and one that has been back in the queue since
    it was preempted is not preempted now.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return False
    number = os.environ["SLURM_JOB_ID"]
    try:
        said = _answer("scontrol", "--oneliner", "show", "job", number)
    except (OSError, subprocess.SubprocessError):
        return False
    fields = dict(word.split("=", 1) for word in said.split() if "=" in word)
    when = fields.get("PreemptTime", "None")
    return (
        fields.get("JobState") == "RUNNING"
        and when[:1].isdigit()
        and when >= fields.get("StartTime", "")  # both such as 2026-01-31T23:59:59
    )


def forward_requests() -> None:
    """Hand a request to stop on to every process below this one, a Snakemake in a job.

    Where SLURM keeps track of processes by cgroups it signals the first process of a job step
    alone, which is Snakemake; elsewhere it signals all of them, and this is a second time.
    """
    signal.signal(REQUEST, lambda number, frame: _hand_on())
    _stop_when_preempted()


def _hand_on() -> None:
    import psutil  # Snakemake's own, in whose process this runs

    for process in psutil.Process().children(recursive=True):
        try:
            process.send_signal(REQUEST)
        except psutil.NoSuchProcess:
            continue


def _stop_when_preempted() -> None:
    """Make a SIGTERM that begins a grace time a request to stop, and no failure of the job.

    Snakemake would call what then ends well a failure too. Who stops for it asks for another job
    itself; for who could not, such as a shell that got the same SIGTERM, that is done here. Depends
    on snakemake/scheduling/job_scheduler.py.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    end, schedule = JobScheduler.exit_gracefully, JobScheduler.schedule
    preempted: list[bool] = []

    def exit_gracefully(scheduler: JobScheduler, *signal_and_frame: object) -> None:
        if is_preempted():
            preempted.append(True)
            _hand_on()
        elif not preempted:  # or this is the one of `requeue`
            end(scheduler, *signal_and_frame)

    def schedule_or_requeue(scheduler: JobScheduler) -> bool:
        went_well: bool = schedule(scheduler)
        if preempted and not went_well and is_preempted():
            print(f"rspo: {requeue()}", file=sys.stderr, flush=True)
        return went_well

    JobScheduler.exit_gracefully, JobScheduler.schedule = exit_gracefully, schedule_or_requeue


def _answer(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout
