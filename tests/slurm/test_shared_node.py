"""Two cells on 4 GPUs each share a node of 8, on a real SLURM with fake GPUs; half a minute."""

import shutil
import time
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.slurm.launch import Launch
from tests.support import ROOT, slurm_world
from tests.support.processes import LONGEST_WAIT
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 1  # of the fixture `cluster`


def test_two_jobs_of_half_a_node_run_at_once_on_different_gpus(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third waits. Each runs with the options that the shipped profile has for the paper."""
    project = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    monkeypatch.chdir(project)
    launch = Launch.read(Experiment.load("paper"))
    large, small = [request for request in launch.used if request.rule == "train"]
    assert (large.gpus, small.gpus) == (8, 4)
    script = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK"; sleep 600'
    jobs = []
    for number in range(3):
        output = tmp_path / f"{number}.log"
        words = ["sbatch", "--parsable", f"--output={output}", *small.options]
        jobs.append(cluster.command(*words, f"--wrap={script}").strip())
    try:
        first, second = [_words(tmp_path / f"{number}.log") for number in range(2)]
        states = [cluster.command("squeue", "-h", "-o", "%T", "-j", job).strip() for job in jobs]
        assert states == ["RUNNING", "RUNNING", "PENDING"]
        node, gpus, cpus = first
        assert second[0] == node
        assert {cpus, second[2]} == {"32"}
        both = gpus.split(",") + second[1].split(",")
        assert sorted(both) == [str(number) for number in range(8)]
    finally:
        cluster.command("scancel", *jobs)


def _words(file: Path) -> list[str]:
    """The words that a job prints when it starts."""
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().endswith("\n"):
            return file.read_text().split()
        time.sleep(0.2)
    raise AssertionError(f"{file}: the job did not start")
