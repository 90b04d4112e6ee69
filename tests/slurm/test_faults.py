"""Failures on a real SLURM: each is reported in one clear line, and no work is lost.

Every test trains one cell through `snakemake --profile slurm`, disturbs it after its first
checkpoint, and compares its curves with those of an undisturbed run, bit for bit. test_soak.py has
further failures.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.evaluation.curves import curves
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.training.train import train
from tests.support import slurm_world
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_run import (
    CELL,
    TRAINING,
    Run,
    cleaned_up,
    lines,
    prepare_project,
    provenance,
    restarts,
)

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 3  # of the fixture `cluster`

# Longer than a time limit of a minute on any core: 100 to 400 seconds of training.
LONG_STEPS = 3000


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with everything that training reads."""
    return prepare_project(tmp_path_factory.mktemp("prepared"), TRAINING)


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The curves of the cell, trained in this process."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(prepared, folder)
    train_here(folder)
    return results_of(folder)


def train_here(folder: Path) -> None:
    """Train the cell in this process."""
    with chdir(folder):
        train(Experiment.load("tiny"), CELL)


@pytest.fixture
def project(prepared: Path, tmp_path: Path, cluster: Cluster) -> Path:
    """A project in which the cell is not trained, and a cluster that has nothing to do."""
    cluster.wait_until_idle()
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder)
    return folder


def results_of(project: Path) -> bytes:
    """Every number of the cell's curves and of its training, seconds aside."""
    with chdir(project):
        experiment = Experiment.load("tiny")
        sample_suite(experiment, CELL, "standard")
        score(experiment, CELL, "standard")
        curves(experiment, CELL, "standard")
        records = read_json_lines(experiment.files.training_log(CELL))
        assert [record["step"] for record in records] == list(range(1, len(records) + 1))
        for record in records:
            del record["seconds"], record["tokens_per_second"]
        return experiment.files.curves(CELL, "standard").read_bytes() + json.dumps(records).encode()


def given_up(line: str) -> list[str]:
    """The last messages of a run in which one job failed for good."""
    return [
        f"given up: {line}",
        "the run is incomplete: the same command resumes it",
    ]


@pytest.fixture
def running(cluster: Cluster, project: Path) -> Iterator[Run]:
    with cleaned_up(Run(cluster, project)) as run:
        yield run


# --- the faults -----------------------------------------------------------------------------------


def test_a_preempted_cell_is_requeued_and_resumes(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    options = ["--partition=urgent", "--nodes=3", "--gres=gpu:h800:8", "--output=/dev/null"]
    urgent = cluster.command("sbatch", "--parsable", *options, "--wrap", "srun sleep 3")
    running.wait_for(lambda: cluster.job(urgent)["JobState"] == "COMPLETED")
    status, output = running.end()
    assert status == 0, output
    assert cluster.job(number)["Restarts"] == "1"
    assert restarts(output, number) == ["1"]
    assert results_of(project) == undisturbed


def test_a_cell_resumes_on_another_node_after_its_node_died(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    node = cluster.job(number)["NodeList"]
    cluster.stop_node(node)
    try:
        status, output = running.end()
    finally:
        cluster.start_node(node)
    assert status == 0, output
    job = cluster.job(number)
    assert job["Restarts"] == "1"
    assert job["NodeList"] != node
    assert restarts(output, number) == ["1"]
    assert results_of(project) == undisturbed


@pytest.mark.release
def test_out_of_memory_is_reported_and_more_memory_fixes_it(
    cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    slurm_world.edit_profile(project, {"set-resources.train.mem_mb": 250})
    status, output = Run(cluster, project, "--retries=0").end()
    assert status != 0
    line, *at_the_end = lines(output)
    assert at_the_end == given_up(line)
    assert re.fullmatch(
        rf"train {CELL}: SLURM job \d+ needed more memory than its mem_mb \[.+\.log\]", line
    )
    slurm_world.edit_profile(project, {"set-resources.train.mem_mb": 64000})
    status, output = Run(cluster, project).end()
    assert status == 0, output
    assert results_of(project) == undisturbed


# --- a time limit ---------------------------------------------------------------------------------


@pytest.mark.release
def test_a_cell_longer_than_its_time_limit_finishes_in_several_jobs_by_itself(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A minute's limit, half of it at least before the signal: SLURM looks twice a minute."""
    cluster.wait_until_idle()
    training = TRAINING | {"steps": LONG_STEPS, "checkpoint_every": 100}
    project = prepare_project(tmp_path / "project", training)
    shutil.copytree(project, tmp_path / "undisturbed")
    changes = {
        "slurm_partition": "short",
        "runtime": 1,
        "slurm_extra": "'--signal=USR1@1 --open-mode=append'",
    }
    slurm_world.edit_profile(
        project, {f"set-resources.train.{key}": value for key, value in changes.items()}
    )
    run = Run(cluster, project)
    train_here(tmp_path / "undisturbed")
    status, output = run.end()
    assert status == 0, output
    processes = provenance(project)["processes"]
    assert len(processes) >= 2
    (number,) = {process["job"] for process in processes}  # the same one, requeued
    assert restarts(output, number) == [str(n) for n in range(1, len(processes))]
    (log,) = (project / "logs" / "slurm" / "rule_train" / CELL).iterdir()
    said = re.findall(r"^rspo: stopped at step (\d+)", log.read_text(), flags=re.M)
    stops = [int(step) for step in said]
    assert len(stops) == len(processes) - 1
    assert any(stop % 100 for stop in stops)  # between checkpoints, and nothing is repeated
    assert results_of(project) == results_of(tmp_path / "undisturbed")
