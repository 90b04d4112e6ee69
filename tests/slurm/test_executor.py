"""The executor with a controller and a plugin that tests control; no SLURM."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from rspo.slurm import executor as module
from rspo.slurm.executor import Executor


class Harness:
    """An executor whose plugin only records its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.answers: Callable[[], bool] = lambda: True  # whether the controller answers
        self.active: list[SubmittedJobInfo] = []  # what the plugin's status check yields
        monkeypatch.setattr(module, "SECONDS_BETWEEN_PINGS", 0.01)
        for name in ("run_job", "cancel", "shutdown"):
            monkeypatch.setattr(plugin.Executor, name, self._record(name))
        for name in ("submission", "success", "error"):
            monkeypatch.setattr(plugin.Executor, f"report_job_{name}", self._record(name))
        monkeypatch.setattr(plugin.Executor, "check_active_jobs", self._check_active_jobs)
        self.executor = Executor.__new__(Executor)
        self.executor._ending = threading.Event()
        self.executor._unfinished = set()
        self.executor.prompts = SimpleNamespace(problem_of=lambda job: job)
        self.executor._controller = SimpleNamespace(answers=lambda: self.answers())

    def _record(self, name: str) -> Callable[..., None]:
        return lambda executor, *arguments, **options: self.calls.append(name)

    async def _check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        self.calls.append("check")
        for job_info in self.active:
            yield job_info

    def check(self, *active: SubmittedJobInfo) -> list[str | None]:
        """Numbers of the jobs that the executor yields."""

        async def yielded() -> list[str | None]:
            checked = self.executor.check_active_jobs(list(active))
            return [job_info.external_jobid async for job_info in checked]

        return asyncio.run(yielded())


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(monkeypatch)


def test_a_job_is_submitted_when_the_controller_answers(harness: Harness) -> None:
    answers = [False, False, True, True]
    harness.answers = lambda: answers.pop(0)
    harness.executor.run_job("")
    assert answers == [True]
    harness.executor.run_job("")
    assert harness.calls == ["run_job", "run_job"]


def test_a_job_whose_problems_do_not_fit_its_model_is_not_submitted(harness: Harness) -> None:
    harness.executor.run_job("small on train: a prompt is too long")
    assert harness.calls == ["error"]


def test_a_job_is_submitted_after_a_long_wait(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sbatch` then fails with its own message."""
    monkeypatch.setattr(module, "SECONDS_TO_WAIT", 0.1)
    harness.answers = lambda: False
    harness.executor.run_job("")
    assert harness.calls == ["run_job"]


@pytest.mark.parametrize("end", ["cancel", "shutdown"])
def test_nothing_is_submitted_once_snakemake_ends(harness: Harness, end: str) -> None:
    def end_meanwhile() -> bool:
        getattr(harness.executor, end)()
        return False

    harness.answers = end_meanwhile
    before = time.monotonic()
    harness.executor.run_job("")
    harness.executor.run_job("")
    assert time.monotonic() - before < 5
    assert harness.calls == [end]


def test_jobs_are_checked_when_the_controller_answers(harness: Harness) -> None:
    answers = [False, False, True]
    harness.answers = lambda: answers.pop(0)
    job = SubmittedJobInfo(None, "12")
    harness.active = [job]
    assert harness.check(job) == ["12"]
    assert answers == []


def test_a_failed_status_query_loses_no_job(harness: Harness) -> None:
    """The plugin yields nothing then; only jobs without a reported end are kept."""
    running, done, failed = (SubmittedJobInfo(None, number) for number in ("12", "13", "14"))
    for job_info in (running, done, failed):
        harness.executor.report_job_submission(job_info)
    harness.executor.report_job_success(done)
    harness.executor.report_job_error(failed)
    assert harness.check(running, done, failed) == ["12"]


def test_the_plugins_source_needs_these_overrides() -> None:
    """Names in the plugin's code that the overrides rely on."""
    assert "run_job" in plugin.Executor._submit_job.__code__.co_names
    reports = {"report_job_success", "report_job_error"}
    assert reports <= set(plugin.Executor.check_active_jobs.__code__.co_names)
