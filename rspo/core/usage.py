"""Wall-clock, processor and GPU seconds that a process used."""

import os
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rspo.core.slurm_job import host_name, this_job

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
    """Usage of this process since it started.

    Args:
        gpu_seconds: used outside SLURM. A SLURM job uses all of its GPUs for as long as it runs.
    """
    wall = time.time() - _STARTED
    job = this_job()
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    gpu = job.gpu_count * wall if job else gpu_seconds
    number = job.number if job else ""
    return Usage(number, host_name(), os.getpid(), round(wall, 2), round(cpu, 2), round(gpu, 2))


def total(parts: Iterable[Usage]) -> dict[str, float]:
    """The sums of the seconds by name."""
    parts = list(parts)
    names = ("wall_seconds", "cpu_seconds", "gpu_seconds")
    return {name: round(sum(getattr(part, name) for part in parts), 2) for name in names}
