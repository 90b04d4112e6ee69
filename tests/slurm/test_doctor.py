"""`rspo doctor` on a real SLURM; tests/slurm/test_cluster_checks.py has fake commands.

About three minutes.
"""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.slurm import node_checks
from rspo.slurm.doctor import findings
from rspo.slurm.launch import INFO, WARNING
from tests.support import ROOT, slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project")


def doctor(
    project: Path, environment: dict[str, str], scale: str = "tiny"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rspo", "doctor", "--scale", scale],
        cwd=project,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )


def require(done: subprocess.CompletedProcess[str], *patterns: str) -> None:
    """The lines that begin with `error` or `warning`."""
    assert done.stderr == ""
    found = [line for line in done.stdout.splitlines() if line.startswith(("error", "warning"))]
    assert len(found) == len(patterns), done.stdout
    for line, pattern in zip(found, patterns, strict=True):
        assert re.match(pattern, line)
    assert done.returncode == (2 if found else 0)


def test_the_shipped_profile_fits_such_a_cluster(cluster: Cluster, project: Path) -> None:
    done = doctor(project, cluster.environment)
    require(done)
    for partition in ("cpu", "gpu"):
        seen = "has this folder and its locks (seen), srun --version (slurm"
        assert f"a node (--partition={partition}) {seen}" in done.stdout
    assert cluster.jobs() == []  # not even the one that was asked about
    assert done.stdout.endswith("nothing to change\n")


def test_refusals_of_slurm_are_reported(cluster: Cluster, project: Path) -> None:
    changes = {
        "set-resources.train.constraint": "nvlink",
        "default-resources.slurm_partition": "short",
    }
    slurm_world.edit_profile(project, changes)
    done = doctor(project, cluster.environment)
    key = r"error    slurm/config\.yaml: "
    require(
        done,
        rf"{key}default-resources\.runtime = 4h is longer than partition short allows; set 1m$",
        rf"{key}set-resources\.train: sbatch .*Invalid feature specification.*; partition gpu has",
    )


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("mem_mb", 2_000_000), "node configuration is not available"),
        (("cpus_per_task", 500), "would never start it"),
        (("gres", "gpu:h800:16"), "node configuration is not available"),
        (("gres", "gpu:a100:1"), "node configuration is not available"),
    ],
)
def test_a_job_that_no_node_can_run_is_refused_with_what_nodes_have(
    cluster: Cluster, project: Path, change: tuple[str, object], refused: str
) -> None:
    slurm_world.edit_profile(project, {f"set-resources.train.{change[0]}": change[1]})
    key = r"error    slurm/config\.yaml: set-resources\.train"
    there = r"partition gpu has nodes with \d+ CPUs, "
    require(doctor(project, cluster.environment), rf"{key}: sbatch .*{refused}.*; {there}")


@pytest.mark.parametrize("state", ["busy", "drained"])
def test_nodes_that_are_busy_or_down_are_no_reason_to_refuse(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Jobs wait for them. `sbatch --test-only` refuses such jobs."""
    monkeypatch.setattr(node_checks, "SECONDS", 3)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    whole = ["--partition=cpu", "--nodes=2", "--exclusive", "--output=/dev/null"]
    nodes = ["update", f"NodeName={','.join(cluster.nodes)}"]
    if state == "busy":
        number = cluster.command("sbatch", "--parsable", *whole, "--wrap", "sleep 100")
    else:
        cluster.command("scontrol", *nodes, "State=DRAIN", "Reason=test")
    try:
        found = findings(Experiment.load("tiny"))
    finally:
        if state == "busy":
            cluster.command("scancel", number)
        else:
            cluster.command("scontrol", *nodes, "State=RESUME")
        cluster.wait_until_idle()
    assert {finding.kind for finding in found} == {INFO, WARNING}
    assert sum(") was not checked: " in finding.line for finding in found) == 2


# --- nodes that lack something --------------------------------------------------------------------


def has_driver(version: str) -> str:
    """Mounts after which a node has this version of NVIDIA's driver."""
    text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build"
    return (
        "mount -t tmpfs tmpfs /proc/driver && mkdir /proc/driver/nvidia && "
        f"echo {shlex.quote(text)} > /proc/driver/nvidia/version"
    )


def lacks_compiler() -> str:
    paths = [shutil.which(name) for name in ("gcc", "clang")]
    return " && ".join(f"mount --bind /dev/null {path}" for path in paths if path)


def lacks_headers() -> str:
    return f"mount -t tmpfs tmpfs {sysconfig.get_paths()['include']}"


def has_full_tmp(kept: list[Path]) -> str:
    """Mounts after which /tmp has 1 MB, and in it these folders."""
    words = ["mount --bind /tmp /media", "mount -t tmpfs -o size=1m tmpfs /tmp"]
    for folder in kept:
        inside = folder.relative_to("/tmp")
        words += [f"mkdir -p /tmp/{inside}", f"mount --bind /media/{inside} /tmp/{inside}"]
    return " && ".join(words)


@contextmanager
def nodes_with(cluster: Cluster, mounts: str) -> Iterator[None]:
    """All nodes of a cluster see these mounts while the block runs."""
    for node in cluster.nodes:
        cluster.stop_node(node)
        cluster.start_node(node, mounts)
    cluster.wait_until_idle()
    try:
        yield
    finally:
        for node in cluster.nodes:
            cluster.stop_node(node)
            cluster.start_node(node)
        cluster.wait_until_idle()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("whole", []),
        (
            "lacking",
            [
                r"NVIDIA driver \(535\.183\.01\): CUDA 13 needs 580 or newer: ask for an update",
                r"C compiler \(none\): Triton finds neither CC, gcc nor clang: load one in the",
                r"Python\.h \(none\): .*/Python\.h does not exist on the node: install Python's",
                # Two cells of the smaller model share a node, and each needs 5 GB.
                r"space in /tmp \(0\.0 GB free\): the trainings of a node need 10 GB: delete",
            ],
        ),
    ],
)
def test_each_lack_of_a_node_is_named_before_a_job_is_submitted(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: list[str]
) -> None:
    """At the paper's scale. The packages are those of this environment, without flash-attn."""
    monkeypatch.delenv("TMPDIR", raising=False)
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    lacking = [has_driver("535.183.01"), lacks_compiler(), lacks_headers()]
    mounts = {
        "whole": has_driver("580.65.06"),
        "lacking": " && ".join([*lacking, has_full_tmp([cluster.folder, project])]),
    }
    with nodes_with(cluster, mounts[name]):
        done = doctor(project, cluster.environment, "paper")
    where = "a node (--partition=gpu)"
    lines = [line for line in done.stdout.splitlines() if line.startswith("error    a node")]
    assert len(lines) == len(expected), done.stdout
    for line, pattern in zip(lines, expected, strict=True):
        assert re.match(rf"error    {re.escape(where)}: {pattern}", line)
    (found,) = re.findall(rf"{re.escape(where)} has (.*)", done.stdout)
    assert "import verl (0.9.1)" in found
    assert ("NVIDIA driver (580.65.06)" in found) == (name == "whole")
    assert cluster.jobs() == []
