"""The number of CPUs follows the quotas of control groups."""

from pathlib import Path

import pytest

from rspo.core.cpus import usable_cpus


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


V2 = {"proc/self/cgroup": "0::/kube/pod"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1"}


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 16),
        (V2, 16),
        (V2 | {"sys/fs/cgroup/kube/pod/cpu.max": "max 100000"}, 16),
        (V2 | {"sys/fs/cgroup/kube/pod/cpu.max": "200000 100000"}, 2),
        (V2 | {"sys/fs/cgroup/kube/pod/cpu.max": "250000 100000"}, 3),
        (V2 | {"sys/fs/cgroup/kube/cpu.max": "400000 100000"}, 4),
        (V2 | {"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),  # a container sees its group as root
        (V2 | {"sys/fs/cgroup/cpu.max": "9900000 100000"}, 16),
        (V2 | {"sys/fs/cgroup/cpu.max": "nonsense"}, 16),
        (
            V1
            | {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (
            V1
            | {
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000",
            },
            16,
        ),
    ],
)
def test_the_smallest_quota_around_the_process_counts(
    tmp_path: Path, files: dict[str, str], count: int
) -> None:
    write(tmp_path, files)
    assert usable_cpus(tmp_path) == count
