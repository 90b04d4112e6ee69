"""The bars of a run in a terminal, and the times left that they show."""

import re
import sys
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.status import display
from rspo.status.time_left import JobTimes, Pace, left
from rspo.training.progress import Snapshot
from tests.status.test_log_handler import SNAKEMAKE, project
from tests.support import ROOT, tiny_world
from tests.support.terminal import run_in_terminal

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CHILD = """
import subprocess
import time
from rspo.status.bars import Bar, shown_as_bars
with shown_as_bars(lambda: [Bar("run", 1, 3, "1 of 3 jobs done", "5 s left")]) as print_above:
    time.sleep(1)
    subprocess.run(["echo", "from a child"])
    print("from this process")
    print_above("from the handler [bold]")
    time.sleep(1)
print("after")
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_training_takes_as_long_as_its_steps_since_it_was_seen() -> None:
    """Ten steps in 20 s: the other 60 take two minutes. A new start forgets the old pace."""
    clock = Clock()
    pace = Pace(clock)
    assert pace.seconds_left("a", 30, 100) is None
    clock.now = 20
    assert pace.seconds_left("a", 40, 100) == pytest.approx(120)
    assert pace.seconds_left("b", 5, 10) is None
    assert pace.seconds_left("a", 0, 100) is None
    clock.now = 21
    assert pace.seconds_left("a", 10, 100) == pytest.approx(9)


def test_a_run_takes_as_long_as_its_jobs_of_the_same_rules() -> None:
    clock = Clock()
    times = JobTimes(clock)
    times.plan({"train": 3, "score": 2, "total": 5})
    times.start(1, "train")
    times.start(2, "score")
    clock.now = 4
    assert times.seconds_left() is None
    times.finish(2)  # a score takes 4 s, and a training at least those 4 s
    assert times.seconds_left() == pytest.approx(3 * 4 + 1 * 4 - 4)
    clock.now = 10
    times.finish(1)
    times.start(3, "train")
    times.start(4, "train")
    clock.now = 13  # two trainings of 10 s with 3 s done each, and a score, on two at a time
    assert times.seconds_left() == pytest.approx((2 * 10 - 2 * 3 + 4) / 2)
    times.stop(3)
    times.stop(4)
    assert times.seconds_left() == pytest.approx(2 * 10 + 4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (41.2, "41 s left"),
        (185, "3 min left"),
        (3900, "1 h 5 min left"),
        (200_000, "2 days left"),
    ],
)
def test_times_are_short(seconds: float | None, text: str) -> None:
    assert left(seconds) == text


def test_a_running_policy_has_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([10, 20])
    clock = Clock()

    def running(_: Experiment) -> dict[str, Snapshot]:
        return {"a": Snapshot(next(steps), 100, {"reward": 0.25})}

    monkeypatch.setattr(display, "running", running)
    pace = Pace(clock)
    experiment = tiny_world.load(tmp_path)
    (first,) = display.bars(experiment, pace)
    clock.now = 5
    (second,) = display.bars(experiment, pace)
    assert (first.left, second.left) == ("", "40 s left")
    assert (second.done, second.total, second.count) == (20, 100, "step 20/100")
    assert second.details == "reward 0.250"


def test_output_is_above_the_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line begins after a carriage return and an erased line, and nothing follows it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    status, output = run_in_terminal([sys.executable, "-c", CHILD], tmp_path)
    assert status == 0
    for text in ("from a child", "from this process", "from the handler [bold]"):
        assert f"\r\x1b[2K{text}\r\n" in output
    plain = CONTROL.sub("", output)
    assert "1 of 3 jobs done 5 s left" in plain
    assert plain.rstrip().endswith("after")


def test_a_run_in_a_terminal_has_a_bar_and_ends_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = project(tmp_path, "sleep 2; touch {output}")
    status, output = run_in_terminal([SNAKEMAKE, "--cores=1"], folder)
    assert status == 0
    plain = CONTROL.sub("", output)
    assert re.search(r"run \S+ 1 of 3 jobs done", plain)
    assert "\x1b[2Kprinted by a job\r\n" in output
    assert plain.splitlines()[-1] == "3 of 3 jobs done"
