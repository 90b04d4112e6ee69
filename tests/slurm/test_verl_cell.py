"""A cell of the verl engine through `snakemake --profile slurm`, stopped once.

About three minutes on two quiet cores: verl starts twice.
"""

import json
import time
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.datasets.prepare import prepare
from rspo.training.pretraining import make_base_policy
from tests.support import slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm, pytest.mark.release]
NODES = 1  # of the fixture `cluster`

CELL = slurm_world.CELLS[1]
STEPS = 3


def make_project(folder: Path) -> Experiment:
    slurm_world.make_project(
        folder,
        engine="verl",
        verl={"ranks": 2},
        training={"steps": STEPS, "checkpoint_every": 1},
    )
    experiment = Experiment.load("tiny", root=folder)
    for data_set in ("train", "validation"):
        prepare(experiment, data_set)
    make_base_policy(experiment, "small")
    return experiment


@pytest.mark.timeout(2400)
def test_a_cell_of_verl_is_requeued_and_resumes(cluster: Cluster, tmp_path: Path) -> None:
    experiment = make_project(tmp_path / "project")
    log = tmp_path / "log"
    policy = f"results/tiny/cells/{CELL}/policy"
    process = slurm_world.start(cluster, tmp_path / "project", policy, log=log)
    try:
        while not (experiment.checkpoint(CELL) / "latest_checkpointed_iteration.txt").exists():
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        ((number, *_),) = cluster.jobs()
        cluster.command("scancel", "--signal=USR1", number)  # as ahead of the time limit
        assert process.wait(1200) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
    assert f"SLURM job {number} was requeued (restart 1)" in log.read_text()
    note = json.loads((experiment.folder(CELL) / "policy.provenance.json").read_text())
    assert note["slurm"]["gpus"] == "gpu:h800:8"
    assert len(note["processes"]) == 2
    assert {process["job"] for process in note["processes"]} == {number}
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
