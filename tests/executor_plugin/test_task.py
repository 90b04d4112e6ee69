"""What the submitting process and the starts of a job know of each other."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snakemake_executor_plugin_slurm_patient.task import Task, file_of, has_ended, last_starts
from tests.support.processes import wait_until

MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTask:
    monkeypatch.chdir(tmp_path)

    def make(
        run: str = "first",
        suffix: str = "",
        outputs: tuple[str, ...] = ("a", "b"),
        step: list[str] | None = None,
    ) -> Task:
        job = SimpleNamespace(name="align", output=outputs)
        file = file_of(job, tmp_path / "tasks")
        paths = [str(tmp_path / name) for name in outputs]
        Task(file, run, paths, suffix, step).write()
        return Task.read(file)

    return make


def test_a_retry_has_the_options_of_its_own_submission(make_task: MakeTask) -> None:
    """Such as more CPUs; the time stays that of the first submission in the run."""
    first = make_task(step=["--cpus-per-task=1"])
    retry = make_task(step=["--cpus-per-task=2"])
    assert retry.step == ["--cpus-per-task=2"]
    assert retry.submitted == first.submitted > 0
    assert make_task(run="second").submitted > first.submitted


def test_two_jobs_of_a_rule_are_two_tasks(make_task: MakeTask) -> None:
    assert make_task().file != make_task(outputs=("a", "c")).file


def test_a_task_is_finished_after_a_successful_start_while_its_outputs_exist(
    make_task: MakeTask,
) -> None:
    task = make_task()
    Path("a").touch()
    task.record_success()
    assert not task.is_finished()  # an output is missing
    Path("b").mkdir()
    assert task.is_finished()
    assert make_task().is_finished()  # another submission in the same run
    Path("a").unlink()
    assert not task.is_finished()


def test_an_output_whose_folder_is_missing_is_not_finished(make_task: MakeTask) -> None:
    task = make_task(outputs=("results/a",))
    task.record_success()
    assert not task.is_finished()


def test_outputs_that_were_there_before_are_not_finished(make_task: MakeTask) -> None:
    Path("a").touch()
    Path("b").touch()
    assert not make_task().is_finished()


def test_a_success_does_not_count_in_a_later_run(make_task: MakeTask) -> None:
    task = make_task()
    Path("a").touch()
    Path("b").touch()
    task.record_success()
    later = make_task(run="second")
    assert not later.is_finished()
    task.record_success()  # a start of the first run that ends only now
    assert not later.is_finished()


def test_a_rule_without_outputs_is_never_finished(make_task: MakeTask) -> None:
    task = make_task(outputs=())
    task.record_success()
    assert not task.is_finished()


def start(task: Task, name: str = "12.0") -> None:
    """A start of a task that ends at once."""
    with task.locked(say=pytest.fail):
        task.record_start(name)


def test_a_task_is_finished_when_its_command_has_marked_each_output_since_the_submission(
    make_task: MakeTask,
) -> None:
    """Also if no start of the job has lived to record its success."""
    for name in ("a", "b", "a.whole", "b.whole"):
        Path(name).touch()
    task = make_task(suffix=".whole")
    start(task)
    os.utime("a.whole", (task.submitted - 1, task.submitted - 1))
    os.utime("b.whole", (task.submitted + 1, task.submitted + 1))
    assert not task.is_finished()  # `a` is from an earlier run
    os.utime("a.whole", (task.submitted + 1, task.submitted + 1))
    assert task.is_finished()
    assert make_task(suffix=".whole").is_finished()  # a retry
    Path("b.whole").unlink()
    assert not task.is_finished()


def test_outputs_that_a_start_of_an_earlier_run_finishes_later_do_not_count(
    make_task: MakeTask,
) -> None:
    """SLURM has forgotten it, and it may have had other settings."""
    earlier = make_task(suffix=".whole")
    start(earlier)
    later = make_task(run="second", suffix=".whole")
    for name in ("a", "b", "a.whole", "b.whole"):
        Path(name).touch()
        os.utime(name, (later.submitted + 1, later.submitted + 1))
    assert not later.is_finished()


def _hold(task: Task, name: str, go_on: Any) -> None:
    with task.locked(say=print):
        task.record_start(name)
        go_on.wait(60)


@pytest.fixture
def holding(make_task: MakeTask) -> Iterator[tuple[Any, Any]]:
    """A process with a start that works, and the event that ends it."""
    context = multiprocessing.get_context("fork")
    task, go_on = make_task(), context.Event()
    other = context.Process(target=_hold, args=[task, "12.0", go_on])
    other.start()
    wait_until(lambda: "12.0" in last_starts(task.file.parent))
    yield other, go_on
    if other.is_alive():
        go_on.set()
        other.join()


def test_a_start_waits_until_another_one_has_ended_and_says_so(
    make_task: MakeTask, holding: tuple[Any, Any]
) -> None:
    other, go_on = holding
    task = make_task()
    assert last_starts(task.file.parent) == {"12.0": task.file}
    assert not has_ended(task.file, "12.0")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        go_on.set()

    with task.locked(say):
        other.join(60)
        assert other.exitcode == 0
        task.record_start("12.1")
        assert not has_ended(task.file, "12.1")
    assert said == ["waiting for another start of this job (12.0) to end"]
    assert has_ended(task.file, "12.1")
    assert not has_ended(task.file, "12.0")  # a later one has begun
    assert not has_ended(task.file, "12.10")


def test_a_killed_start_holds_no_lock(make_task: MakeTask, holding: tuple[Any, Any]) -> None:
    other, _ = holding
    task = make_task()
    other.kill()
    other.join()
    assert has_ended(task.file, "12.0")
    start(task, "12.1")
