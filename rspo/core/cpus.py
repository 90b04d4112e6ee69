"""How many CPUs this process may use, also in a container with a quota."""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cpus(root: Path = Path("/")) -> int:
    """The number of CPUs that this process may use, at least 1.

    The number is limited by the CPU affinity, and by the quota of each control group that contains
    the process, as `docker run --cpus 2` or Kubernetes sets it.

    Args:
        root: the root of the file system, for tests.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # macOS has none
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min([count] + [math.ceil(quota) for quota in _quotas(root)]))


def _quotas(root: Path) -> Iterator[float]:
    """The quotas of the control groups of this process, in CPUs."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if not controllers:  # version 2
            for folder in _with_parents(root / "sys/fs/cgroup", path):
                limit, _, period = _words(folder / "cpu.max").partition(" ")
                yield from _ratio(limit, period)
        elif "cpu" in controllers.split(","):  # version 1
            for folder in _with_parents(root / "sys/fs/cgroup" / controllers, path):
                limit = _words(folder / "cpu.cfs_quota_us")
                yield from _ratio(limit, _words(folder / "cpu.cfs_period_us"))


def _with_parents(top: Path, path: str) -> Iterator[Path]:
    """The folder of a control group and of all groups around it.

    Within a container, the path may be that of the host. Folders that do not exist have no quota.
    """
    folder = top / path.lstrip("/")
    while folder != top and top in folder.parents:
        yield folder
        folder = folder.parent
    yield top


def _words(file: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _ratio(limit: str, period: str) -> Iterator[float]:
    """A quota as a number of CPUs; nothing for `max`, -1 and texts that are no numbers."""
    if limit.isdigit() and period.isdigit() and int(limit) > 0 and int(period) > 0:
        yield int(limit) / int(period)
