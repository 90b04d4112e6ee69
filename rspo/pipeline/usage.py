"""Usage: the time that a process spent, on wall clock, processors and GPUs."""

import os
import resource
import time
from dataclasses import dataclass

from rspo.core.slurm_job import host_name, this_job

SECONDS = ("wall_seconds", "cpu_seconds", "gpu_seconds")  # fields of `Usage`
_STARTED = time.time()


@dataclass(frozen=True)
class Usage:
    """Usage of one process and its finished children. `job` is the SLURM job ID, or empty."""

    job: str
    host: str
    process: int
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float


def usage_so_far(gpu_seconds: float = 0.0) -> Usage:
    """Usage of this process so far.

    Args:
        gpu_seconds: used outside SLURM. A SLURM job uses all of its GPUs for as long as it runs.
    """
    wall_seconds = time.time() - _STARTED
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    job = this_job()
    if job:
        gpu_seconds = job.gpu_count * wall_seconds
    return Usage(
        job=job.number if job else "",
        host=host_name(),
        process=os.getpid(),
        wall_seconds=round(wall_seconds, 2),
        cpu_seconds=round(cpu_seconds, 2),
        gpu_seconds=round(gpu_seconds, 2),
    )
