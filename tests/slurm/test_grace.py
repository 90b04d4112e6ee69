"""Preemption with a grace time: SLURM sends SIGTERM first and takes the nodes later.

About a minute, on a real SLURM. `tests/executor_plugin/test_start.py` tests a start of a job alone.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import slurm_cluster, slurm_run
from tests.support.slurm_cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    slurm_cluster.require_slurm()
    with slurm_cluster.started(nodes=1) as running:
        running.command("scontrol", "update", "PartitionName=gpu", "GraceTime=60")
        yield running


@pytest.mark.long
@pytest.mark.slurm
@pytest.mark.release
def test_a_cell_preempted_with_a_grace_time_is_requeued_and_resumes(
    cluster: Cluster, tmp_path: Path
) -> None:
    project = slurm_run.prepare_project(tmp_path / "project", slurm_run.TRAINING)
    run = slurm_run.Run(cluster, project, "--retries=0")
    try:
        number = run.wait_for_checkpoint()
        options = ["--partition=urgent", "--gres=gpu:h800:8", "--output=/dev/null"]
        urgent = cluster.command("sbatch", "--parsable", *options, "--wrap", "srun sleep 3")
        run.wait_for(lambda: cluster.job(urgent)["JobState"] == "COMPLETED")
        status, output = run.end()
    finally:
        run.kill()
    assert status == 0, output + run.job_logs()
    assert cluster.job(number)["Restarts"] == "1"
    assert slurm_run.restarts(output, number) == ["1"]
    processes = slurm_run.provenance(project)["processes"]
    assert [process["job"] for process in processes] == [number, number]
