"""Kills processes of a cell's training one after the other: no step is lost, no process is left.

Four minutes on two quiet cores: verl starts six times.
"""

import json
import random
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.training.progress import read_progress
from rspo.training.verl import ray_cluster as cluster
from rspo.training.verl.checkpoints import last_step
from tests.support import tiny_world
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
        checkpoint = self.experiment.checkpoint(CELL)
        driver = self.descendants("-m rspo.training.verl.driver")[-1].pid
        while (
            (progress := read_progress(checkpoint)) is None
            or progress.used[-1]["process"] != driver
            or progress.step < step
        ):
            self.require_running()
            time.sleep(0.05)

    def head_port(self) -> int:
        """A port on which Ray's head listens."""
        while True:
            for connection in self.descendants("gcs_server")[0].net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    return connection.laddr.port
            time.sleep(0.1)


def left_over(experiment: Experiment) -> list[str]:
    """Remaining processes of the experiment, and Ray's folder if it exists."""
    folder, remaining = cluster.folder_of(experiment.folder(CELL)), []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ()]
        except psutil.Error:
            continue
        key = cluster.key_of(experiment.folder(CELL))
        if any(str(folder) in word or key in word for word in words) or (
            str(experiment.reports.parent) in " ".join(words)
        ):
            remaining.append(" ".join(words[:5]))
    return [*remaining, *([str(folder)] if folder.exists() else [])]


def assert_nothing_is_left(experiment: Experiment, port: int, seconds: float = 0) -> None:
    deadline = time.monotonic() + seconds
    while (remaining := left_over(experiment)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert remaining == []
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignores closed connections
        free.bind(("", port))
        free.listen()


def victims() -> Iterator[tuple[str, str]]:
    """Processes to kill, and a part of the error message."""
    yield "command", ""
    yield "verl.driver", "verl's driver exited with status 137 and no message"
    yield "ray::WorkerDict", "(WorkerDict) has died"
    yield "gcs_server", "Ray's gcs_server has died"


def test_after_any_kill_the_same_command_resumes(experiment: Experiment) -> None:
    draw = random.Random(0)
    checkpoint, done = experiment.checkpoint(CELL), 0
    for victim, words in victims():
        run = Run(experiment)
        port = run.head_port()
        run.wait_for(done + draw.randint(1, 2))
        time.sleep(draw.uniform(0, 0.5))
        if victim == "command":
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
            assert_nothing_is_left(experiment, port, seconds=60)
        else:
            run.descendants(victim)[-1].kill()  # the supervisor comes before the driver
            status, line = run.end()
            assert status == 1, (victim, line)
            assert line.startswith(f"rspo: error: {CELL}: "), (victim, line)
            assert words in line
            assert line.endswith(f"resumes from step {last_step(checkpoint)}"), (victim, line)
            assert_nothing_is_left(experiment, port)
        done = last_step(checkpoint)
        assert not experiment.policy(CELL).exists()

    run = Run(experiment)
    port = run.head_port()
    run.process.send_signal(signal.SIGUSR1)  # during start-up: it stops after the next step
    status, line = run.end()
    assert (status, last_step(checkpoint)) == (75, done + 1), line
    assert line == f"rspo: stopped at step {done + 1} on request; the next run resumes there"
    assert_nothing_is_left(experiment, port)
    first = json.loads((checkpoint / f"global_step_{done + 1}" / "records.json").read_text())

    run = Run(experiment)
    port = run.head_port()
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == (130, "rspo: interrupted")
    assert_nothing_is_left(experiment, port)

    run = Run(experiment)
    port = run.head_port()
    run.require_success()
    assert_nothing_is_left(experiment, port)
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert records[: done + 1] == first
    assert not checkpoint.exists()
    assert (experiment.policy(CELL) / "model.safetensors").exists()


def test_a_server_that_never_answers_ends_the_job_which_resumes(experiment: Experiment) -> None:
    limits = {"hang_seconds": 100}
    run = Run(experiment, verl=limits)
    port = run.head_port()
    run.wait_for(2)
    (server,) = run.descendants("ray::Server")
    server.suspend()
    status, line = run.end()
    done = last_step(experiment.checkpoint(CELL))
    assert status == 1
    assert done >= 2
    message = rf"rspo: error: {CELL}: no step for 1\d\d s .* a process hangs; .* from step {done}"
    assert re.fullmatch(message, line)
    assert_nothing_is_left(experiment, port)

    assert Run(experiment, verl=limits).end()[0] == 0
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
