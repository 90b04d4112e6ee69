"""Kills processes of a cell's training one after the other: no step is lost, no process is left.

Four minutes on two quiet cores: verl starts six times. test_driver.py has a process that hangs.
"""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.core.supervisor import processes_with
from rspo.training.progress import read_progress
from rspo.training.verl import ray_cluster as cluster
from rspo.training.verl.checkpoints import last_step
from tests.support import tiny_world
from tests.support.processes import wait_until
from tests.training.verl.command import Command

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CELL = "small--rspo-pass--k4--n16--s0"
STEPS = 12
TRAINING = tiny_world.OVERRIDES["training"] | {"steps": STEPS, "checkpoint_every": 2}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """A small experiment with problems and a base policy."""
    return tiny_world.load_prepared(tmp_path, training=TRAINING, engine="verl")


class Run(Command):
    """The training of the cell."""

    def __init__(self, experiment: Experiment, **settings: object) -> None:
        super().__init__(experiment, CELL, **settings)
        self.experiment = experiment

    def wait_for(self, step: int) -> None:
        """Wait until this run has finished a step."""
        checkpoint = self.experiment.files.checkpoint(CELL)
        self.descendants("gcs_server")  # which the driver starts, as its supervisor does the driver
        driver = self.descendants("-m rspo.training.verl.driver")[-1].pid
        while (
            (progress := read_progress(checkpoint)) is None
            or progress.used[-1]["process"] != driver
            or progress.step < step
        ):
            self.require_running()
            time.sleep(0.05)


def left_over(experiment: Experiment) -> list[str]:
    """Remaining processes of the cell, and Ray's folder if it exists."""
    cell = experiment.files.folder(CELL)
    folder = cluster.folder_of(cell)
    remaining = [str(process) for process in processes_with(cluster.key_of(cell))]
    return [*remaining, *([str(folder)] if folder.exists() else [])]


# Processes to kill, and a part of the error message.
VICTIMS = {
    "command": "",
    "verl.driver": "verl's driver exited with status 137 and no message",
    "ray::WorkerDict": "(WorkerDict) has died",
    "gcs_server": "Ray's gcs_server has died",
}


def test_after_any_kill_the_same_command_resumes(experiment: Experiment) -> None:
    draw = random.Random(0)
    checkpoint, done = experiment.files.checkpoint(CELL), 0
    for victim, words in VICTIMS.items():
        run = Run(experiment)
        run.wait_for(done + draw.randint(1, 2))
        time.sleep(draw.uniform(0, 0.5))
        if victim == "command":
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
            wait_until(lambda: not left_over(experiment))
        else:
            run.descendants(victim)[-1].kill()  # the supervisor comes before the driver
            status, line = run.end()
            assert status == 1, (victim, line)
            assert line.startswith(f"rspo: error: {CELL}: "), (victim, line)
            assert words in line
            assert line.endswith(f"resumes from step {last_step(checkpoint)}"), (victim, line)
            assert left_over(experiment) == []
        done = last_step(checkpoint)
        assert not experiment.files.policy(CELL).exists()

    run = Run(experiment)
    run.descendants("gcs_server")
    run.process.send_signal(signal.SIGUSR1)  # during start-up: it stops after the next step
    status, line = run.end()
    assert (status, last_step(checkpoint)) == (75, done + 1), line
    assert line == f"rspo: stopped at step {done + 1} on request; the next run resumes there"
    assert left_over(experiment) == []
    unfinished = checkpoint / f"global_step_{done + 1}"
    first = json.loads((unfinished / "records.json").read_text())
    # Only the last step's has the policy.
    assert list(unfinished.rglob("*.safetensors")) == []

    run = Run(experiment)
    run.descendants("gcs_server")
    run.process.send_signal(signal.SIGTERM)
    status, line = run.end()
    assert status == 130
    assert line.startswith("rspo: interrupted; `rspo train ")
    assert line.endswith("` resumes it, without --force")
    assert left_over(experiment) == []

    run = Run(experiment)
    run.require_success()
    assert left_over(experiment) == []
    records = read_json_lines(experiment.files.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert records[: done + 1] == first
    assert not checkpoint.exists()
    assert (experiment.files.policy(CELL) / "model.safetensors").exists()
