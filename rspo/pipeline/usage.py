"""The resources that a process uses: its wall-clock, processor and GPU seconds."""

import os
import resource
import time
from dataclasses import dataclass

from rspo.core.slurm_job import host_name, this_job

SECONDS = ("wall_seconds", "cpu_seconds", "gpu_seconds")  # fields of `Usage`
_STARTED = time.time()  # when this module was imported, which is early in every command


@dataclass(frozen=True)
class Usage:
    """The usage of one process and its finished children.

    job: the SLURM job ID; empty outside SLURM.
    process: the process ID on the host.
    wall_seconds: the wall-clock time of the process.
    cpu_seconds: the sum over processors, in user and in system mode.
    gpu_seconds: the sum over GPUs.
    """

    job: str
    host: str
    process: int
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float


def usage_so_far(gpu_seconds: float = 0.0) -> Usage:
    """The usage of this process so far.

    Args:
        gpu_seconds: what the process itself counted. In a SLURM job this is ignored: the job
            occupies all of its GPUs for as long as it runs, even when they are idle.
    """
    wall_seconds = time.time() - _STARTED
    # The system counts a child when it has ended and this process has waited for it.
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
