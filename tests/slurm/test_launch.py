"""The first start of the paper's scale, on a real SLURM with fake GPUs.

The config and the profile are the shipped ones; only the precommand, a line marked HERE, is filled
in: it loads packages and a driver that claim to use the GPU (`tests.support.gpu_stubs`). Partitions
and the type of GPU are those of the shipped profile. About two minutes.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, slurm_world
from tests.support.gpu_stubs import make_gpu_node, make_login_node
from tests.support.slurm_cluster import Cluster
from tests.support.snakemake_project import PROGRAMS

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`
PAPER = ["--config", "scale=paper"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    return folder


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """Of the shell that starts the run."""
    values = cluster.environment
    packages = make_login_node(tmp_path / "login")
    path = f"{PROGRAMS}:{values['PATH']}"
    return values | {"PYTHONPATH": f"{ROOT}:{packages}", "PATH": path}


def run(
    project: Path, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=slurm_world.LONGEST_RUN,
    )


def fill_in(project: Path, precommand: str) -> None:
    """Write a value to a line that the profile marks with HERE, and to no other."""
    path = project / "slurm" / "config.yaml"
    marked = re.compile(r"(# Software\. HERE: (?:.*\n)(?:#.*\n)*)precommand: .*\n")
    text, count = marked.subn(
        lambda match: f"{match[1]}precommand: '{precommand}'\n", path.read_text()
    )
    assert count == 1
    path.write_text(text)


def test_the_doctor_has_nothing_to_change(
    project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    fill_in(project, make_gpu_node(tmp_path / "node"))
    done = run(project, environment, "rspo", "doctor", "--scale", "paper")
    assert done.stdout.endswith("nothing to change\n"), done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        " sees this folder, its locks, this software and SLURM (NVIDIA H800 85 GB, "
        "CUDA 13.0, torch 2.11.0, vllm 0.24.0, flash_attn 2.8.3, verl "
        "0.9.1)"
    ) in done.stdout
    assert done.stdout.count(" sees this folder") == 2


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (
            {"available": False},
            "has a GPU that jobs would not use: The NVIDIA driver on your system is too old (found "
            "version 12040). (CUDA 13.0); ",
        ),
        (
            {"vllm_on_cpu": True},
            "has a GPU that jobs would not use: vLLM is built for CPUs (",
        ),
    ],
)
def test_nothing_is_submitted_to_nodes_that_would_not_use_their_gpu(
    cluster: Cluster,
    project: Path,
    environment: dict[str, str],
    tmp_path: Path,
    node: dict[str, object],
    expected: str,
) -> None:
    """Nor is anything downloaded."""
    fill_in(project, make_gpu_node(tmp_path / "node", **node))  # type: ignore[arg-type]
    done = run(project, environment, "snakemake", "all", "--profile", "slurm", *PAPER)
    assert done.returncode == 1
    assert re.search(f"\nerror: partition gpu: node n[12] {re.escape(expected)}", done.stderr)
    require_nothing_started(cluster, project)


def require_nothing_started(cluster: Cluster, project: Path) -> None:
    assert cluster.jobs() == []
    assert not (project / "logs" / "slurm").exists()
    assert not (project / "results").exists()
