"""What the submitting process and the starts of a job know of each other."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snakemake_executor_plugin_slurm_patient.task import Task, tasks_in
from tests.support.processes import wait_until

MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTask:
    monkeypatch.chdir(tmp_path)

    def make(run: str = "first", suffix: str = "", outputs: tuple[str, ...] = ("a", "b")) -> Task:
        job = SimpleNamespace(name="align", output=outputs)
        settings: dict[str, Any] = {"run": run, "finished_suffix": suffix, "step": ["-n1"]}
        task = Task.of_job(job, tmp_path / "tasks", **settings)
        task.write()
        return task

    return make


def test_a_start_reads_what_the_submitting_process_has_written(make_task: MakeTask) -> None:
    task = make_task(suffix=".whole")
    assert Task.read(task.file) == task
    assert list(tasks_in(task.file.parent)) == [task]


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


def test_a_task_is_finished_when_its_command_has_marked_each_output_since_the_submission(
    make_task: MakeTask,
) -> None:
    """Also if no start of the job has lived to record its success."""
    for name in ("a", "b", "a.whole", "b.whole"):
        Path(name).touch()
    task = make_task(suffix=".whole")
    submitted = task.file.stat().st_mtime
    os.utime("a.whole", (submitted - 1, submitted - 1))
    os.utime("b.whole", (submitted + 1, submitted + 1))
    assert not task.is_finished()  # `a` is from an earlier run
    os.utime("a.whole", (submitted + 1, submitted + 1))
    assert task.is_finished()
    assert make_task(suffix=".whole").is_finished()  # a retry does not count as a new submission
    Path("b.whole").unlink()
    assert not task.is_finished()


def _hold(task: Task, start: str, go_on: Any) -> None:
    with task.locked(start, say=print):
        go_on.wait(60)


def test_a_start_waits_until_another_one_has_ended_and_says_so(make_task: MakeTask) -> None:
    task, said = make_task(), list[str]()
    go_on = multiprocessing.get_context("fork").Event()
    other = multiprocessing.get_context("fork").Process(target=_hold, args=[task, "12.0", go_on])
    other.start()
    lock = task.file.with_suffix(".lock")
    wait_until(lambda: lock.exists() and lock.read_text() == "12.0")
    assert not task.has_ended("12.0")

    def say(line: str) -> None:
        said.append(line)
        go_on.set()

    with task.locked("12.1", say):
        assert other.exitcode is None or other.exitcode == 0
        assert not task.has_ended("12.1")
    assert said == ["waiting for another start of this job (12.0) to end"]
    assert task.has_ended("12.1")
    assert not task.has_ended("12.0")  # a later one has begun
    other.join()


def test_a_killed_start_holds_no_lock(make_task: MakeTask) -> None:
    task = make_task()
    go_on = multiprocessing.get_context("fork").Event()
    other = multiprocessing.get_context("fork").Process(target=_hold, args=[task, "12.0", go_on])
    other.start()
    lock = task.file.with_suffix(".lock")
    wait_until(lambda: lock.exists() and lock.read_text() == "12.0")
    other.kill()
    other.join()
    assert task.has_ended("12.0")
    with task.locked("12.1", say=pytest.fail):
        pass
