"""SLURM starts a job again whose results are finished: they stay as they are, on a real SLURM.

Its controller is down when the job ends, and returns without having noticed. In the first case it
has also forgotten that it had started the job; in the second case it still shows the job as running
on a node that is well; in the third case it finds that the node is lost, and requeues the job.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import wait_until
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_run import POLICY, TRAINING, Run, cleaned_up, prepare_project

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`
SECONDS_TO_SAVE = 8  # SLURM's controller saves its state every five seconds


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path) -> Path:
    """A project in which the cell is not trained, and a cluster that has nothing to do."""
    cluster.wait_until_idle()
    return prepare_project(tmp_path / "project", TRAINING | {"steps": 400})


@pytest.fixture
def running(cluster: Cluster, project: Path) -> Iterator[Run]:
    for node in cluster.nodes:
        cluster.command("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    with cleaned_up(Run(cluster, project)) as run:
        yield run


def results_of(project: Path) -> dict[str, tuple[bytes, float]]:
    """Contents of the files of policy and log, and when the weights and provenance were written.

    Snakemake itself may touch an output, and has a hidden file in each folder.
    """
    folder = (project / POLICY).parent
    files = [*folder.glob("policy/[!.]*"), *folder.glob("policy.*"), *folder.glob("training.*")]
    results = {}
    for file in files:
        is_touched = file.name == "training.jsonl"
        time_of_writing = 0.0 if is_touched else file.stat().st_mtime
        results[str(file.relative_to(folder))] = (file.read_bytes(), time_of_writing)
    return results


@pytest.mark.parametrize("event", ["launched again", "shown as running", "lost node"])
def test_a_finished_job_that_slurm_starts_again_does_nothing(
    running: Run, cluster: Cluster, project: Path, event: str
) -> None:
    number = running.wait_for(lambda: number_of_training(cluster))
    waiting = save_state(cluster, "waiting")
    for node in cluster.nodes:
        cluster.command("scontrol", "update", f"NodeName={node}", "State=RESUME")
    running.wait_for(running.checkpoint.exists)
    at_work = save_state(cluster, "at-work")
    node = cluster.job(number)["NodeList"]
    cluster.stop_controller()
    tasks = project / ".snakemake" / "slurm-patient"
    running.wait_for(lambda: any(tasks.glob("*.done")))
    before = results_of(project)
    assert {"policy.provenance.json", "training.jsonl", "training.jsonl.provenance.json"} <= {
        *before
    }
    cluster.stop_node(node)  # nothing reports the end of the job any more
    cluster.lose_state(waiting if event == "launched again" else at_work)
    if event != "lost node":
        cluster.start_node(node)
    cluster.start_controller()
    wait_until(lambda: resume(cluster))
    status, output = running.end()
    if event == "lost node":
        cluster.start_node(node)
    assert status == 0, output
    assert results_of(project) == before
    logs = running.job_logs()
    assert "the outputs of this job are finished: nothing is left to do" in logs
    if event == "launched again":
        assert logs.count(f"slurm-patient: start 0 of job {number} on") == 2
    assert not (project / POLICY).with_name("checkpoint").exists()


def number_of_training(cluster: Cluster) -> str:
    """The number of the training in SLURM's queue; empty before it is submitted."""
    jobs = cluster.jobs("%i %k")
    return next((number for number, comment in jobs if comment.startswith("rule_train")), "")


def save_state(cluster: Cluster, name: str) -> Path:
    """A copy of what the controller knows now."""
    time.sleep(SECONDS_TO_SAVE)
    copy = cluster.folder / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(cluster.folder / "state", copy)
    return copy


def resume(cluster: Cluster) -> bool:
    """End the drain of all nodes; whether the controller has answered."""
    try:
        cluster.resume_nodes()
    except AssertionError:
        return False
    return True
