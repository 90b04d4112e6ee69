"""What a running training shows: its log on disk after each step, and TensorBoard's event files."""

import importlib.util
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.training import events
from rspo.training.events import scalars_of
from rspo.training.mfu import model_flops_utilization
from rspo.training.progress import read_progress
from rspo.training.run_log import RunLog
from tests.support import tiny_world

CELL = "small--rspo-pass--k4--n16--s0"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny_world.load(tmp_path)


@pytest.fixture
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    own = lambda name: None if name == "tensorboard" else find(name)  # noqa: E731
    monkeypatch.setattr(events.importlib.util, "find_spec", own)


def record(step: int) -> dict[str, Any]:
    metrics = {"reward": step / 10, "pass_at_4": 0.5, "entropy": 1.5}
    return {"step": step, **metrics, "seconds": {"sample": 2.0, "update": float(step)}}


def lines(experiment: Experiment) -> list[str]:
    return (experiment.files.checkpoint(CELL) / "training.jsonl").read_text().splitlines(True)


@pytest.mark.usefixtures("without_tensorboard")
def test_a_record_is_on_disk_when_the_step_ends(experiment: Experiment) -> None:
    with RunLog(experiment, CELL, []) as log:
        for step in (1, 2, 3):
            log.add(record(step))
            assert [json.loads(line) for line in lines(experiment)] == log.records
            assert len(log.records) == step
    progress = read_progress(experiment.files.checkpoint(CELL))
    assert progress is not None
    assert progress.steps == experiment.config.training.steps
    assert not experiment.files.events(CELL).exists()


@pytest.mark.usefixtures("without_tensorboard")
def test_a_killed_training_leaves_whole_lines_and_the_next_goes_on_from_its_checkpoint(
    experiment: Experiment,
) -> None:
    """SIGKILL while it writes as fast as it can; some records exceed the buffer of a file."""
    path = experiment.files.checkpoint(CELL) / "training.jsonl"
    child = os.fork()
    if child == 0:
        try:
            log = RunLog(experiment, CELL, [])
            for step in range(1, 1_000_000):
                log.add(record(step) | {"note": "x" * (100 * step % 20_000)})
        finally:
            os._exit(1)  # after an error, this process must not go on with the other tests
    end = time.monotonic() + 20
    while time.monotonic() < end and not (path.exists() and path.stat().st_size > 1_000_000):
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = lines(experiment)
    # Linux writes page by page, and SIGKILL can end a write between two of them.
    if not found[-1].endswith("\n"):
        found.pop()
    assert len(found) > 100
    assert all(line.endswith("\n") for line in found)
    assert [json.loads(line)["step"] for line in found] == list(range(1, len(found) + 1))
    with RunLog(experiment, CELL, [record(1), record(2)]) as log:
        assert len(lines(experiment)) == 2
        log.add(record(3))
    assert [json.loads(line) for line in lines(experiment)] == [record(1), record(2), record(3)]


@pytest.mark.usefixtures("without_tensorboard")
def test_an_incomplete_last_line_is_dropped(experiment: Experiment) -> None:
    """As a full disk leaves one."""
    with RunLog(experiment, CELL, []) as log:
        log.add(record(1))
    path = experiment.files.checkpoint(CELL) / "training.jsonl"
    path.write_text(path.read_text() + '{"step": 2, "rew')
    with RunLog(experiment, CELL, [record(1)]) as log:
        log.add(record(2))
    assert [json.loads(line) for line in lines(experiment)] == [record(1), record(2)]


def read_events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by name, as TensorBoard shows them."""
    package = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(package).EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_shows_each_step_once_after_a_resume(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first process was killed in step 5, and its checkpoint has three steps."""
    pytest.importorskip("tensorboard")
    folder = experiment.files.events(CELL)
    killed = RunLog(experiment, CELL, [])
    for step in range(1, 5):
        killed.add(record(step))
    assert len(read_events(folder)["training/reward"]) == 4  # while the training runs
    with RunLog(experiment, CELL, killed.records[:3]) as log:
        log.add(record(4) | {"reward": 0.75})
    shown = read_events(folder)
    assert shown["training/reward"] == [
        (1, pytest.approx(0.1)),
        (2, pytest.approx(0.2)),
        (3, pytest.approx(0.3)),
        (4, 0.75),
    ]
    assert shown["seconds/update"] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert (
        capsys.readouterr().out.splitlines()
        == [f"to watch this training: tensorboard --logdir {folder}"] * 2
    )
    killed.events.close()
    with RunLog(experiment, CELL, []) as log:
        log.add(record(1))
    assert read_events(folder)["training/reward"] == [(1, pytest.approx(0.1))]  # a new training


# The thread that writes the file ends with the error, which `add` gets too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_training_does_not_end_because_its_charts_were_removed(
    experiment: Experiment, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("tensorboard")
    with RunLog(experiment, CELL, []) as log:
        log.add(record(1))
        shutil.rmtree(experiment.files.events(CELL))
        for step in range(2, 5):
            log.add(record(step))
    assert len(lines(experiment)) == 4
    (warning,) = caplog.messages
    assert warning.startswith("TensorBoard shows no further steps of this training: ")


def test_every_number_of_a_record_has_a_name() -> None:
    scalars = scalars_of(record(2) | {"sampler": {"difference": 0.25}, "mfu": 0.5})
    assert scalars == {
        "training/reward": 0.2,
        "training/pass_at_4": 0.5,
        "training/entropy": 1.5,
        "training/mfu": 0.5,
        "seconds/sample": 2.0,
        "seconds/update": 2.0,
        "sampler/difference": 0.25,
    }


def test_utilization_is_one_if_the_passes_take_the_time_of_the_peak() -> None:
    """1.5e9 parameters, a million tokens read and half of them updated, on four H800s."""
    operations = 1.5e9 * (2 * 1e6 + 6 * 5e5)
    seconds = operations / (4 * 989e12)
    found = model_flops_utilization(1_500_000_000, 1_000_000, 500_000, seconds, 4, 989e12)
    assert found == pytest.approx(1)
