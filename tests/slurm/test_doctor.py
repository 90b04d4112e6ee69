"""`rspo doctor` on a real SLURM; tests/slurm/test_cluster_checks.py has fake commands.

About a minute.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.slurm import node_checks
from rspo.slurm.doctor import findings
from rspo.slurm.launch import INFO
from tests.support import ROOT, slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project")


def doctor(project: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rspo", "doctor"],
        cwd=project,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
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
        assert f"a node (--partition={partition}) sees this folder and its locks" in done.stdout
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
    assert {finding.kind for finding in found} == {INFO}
    assert sum(") was not checked: " in finding.line for finding in found) == 2
