"""The executor with a controller and a SLURM plugin that tests control; no SLURM."""

import asyncio
import dataclasses
import fcntl
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from snakemake_executor_plugin_slurm_patient import executor as module
from snakemake_executor_plugin_slurm_patient import queue as queue_module
from snakemake_executor_plugin_slurm_patient.executor import Executor
from snakemake_executor_plugin_slurm_patient.failures import failure
from snakemake_executor_plugin_slurm_patient.heartbeat import START, Heartbeats
from snakemake_executor_plugin_slurm_patient.queue import NoAnswer, QueuedJob

SECONDS_OF_SILENCE = 600


class Job:
    """A job of Snakemake, with what the executor reads of it."""

    name = "align"
    wildcards = ("a", "1")

    def __init__(self) -> None:
        self.log = ["logs/align/a/1.log"]
        self.resources: dict[str, str] = {}

    def is_group(self) -> bool:
        return False


class Group:
    """A group of jobs; it has no `wildcards`."""

    name = "group_align"

    def __init__(self) -> None:
        self.resources: dict[str, str] = {}

    def is_group(self) -> bool:
        return True


class Harness:
    """An executor whose plugin only records its calls, with a queue that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.calls: list[str] = []
        self.answers: Callable[[], bool] = lambda: True  # whether the controller answers
        self.queue: list[QueuedJob] | None = []  # None: squeue fails
        self.commands: list[str] = []  # of SLURM
        self.errors: dict[str, str] = {}  # message for a command that SLURM refuses
        self.state = "RUNNING"  # of every job, according to the plugin; "" if its query fails
        self.time = 0.0  # seconds that have passed besides the real ones
        self.folder = folder
        self.printed: list[str] = []  # by the executor
        monkeypatch.setattr(module, "SECONDS_BETWEEN_PINGS", 0.01)
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.time, sleep=time.sleep)
        for part in (module, queue_module):
            monkeypatch.setattr(part, "time", clock)
            monkeypatch.setattr(part, "ask", self._ask)
        monkeypatch.setattr(module, "jobs_of", self._jobs_of)
        monkeypatch.setattr(module, "controller_answers", lambda: self.answers())
        monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda *_: None)
        for name in ("run_job", "shutdown"):
            monkeypatch.setattr(plugin.Executor, name, self._record(name))
        for name in ("submission", "success", "error"):
            monkeypatch.setattr(plugin.Executor, f"report_job_{name}", self._record(name))
        monkeypatch.setattr(plugin.Executor, "check_active_jobs", self._check_active_jobs())
        monkeypatch.setattr(plugin.Executor, "next_seconds_between_status_checks", 180)
        self.executor = Executor.__new__(Executor)
        self.executor._ending, self.executor._submitting = threading.Event(), []
        self.executor._submissions, self.executor._owners = {}, {}
        self.executor._resubmissions, self.executor._seconds = Counter(), 60
        self.executor._heartbeats = Heartbeats(folder / "heartbeats", SECONDS_OF_SILENCE)
        self.executor._heartbeats.folder.mkdir()
        self.executor._controller_answered, self.executor._pinging = True, threading.Lock()
        self.executor._failed, self.executor.run_uuid = {}, "rspo_1"
        self.executor.logger = SimpleNamespace(warning=self.printed.append)

    def _record(self, name: str) -> Callable[..., None]:
        return lambda executor, *args, msg="", **kwargs: self.calls.append(f"{name} {msg}".strip())

    def _jobs_of(self, run: str) -> dict[str, QueuedJob]:
        if self.queue is None:
            raise NoAnswer("SLURM does not answer")
        return {job.number: job for job in self.queue}

    def _ask(self, *words: str) -> str:
        self.commands.append(" ".join(words))
        if words[1] in self.errors:
            raise NoAnswer(self.errors[words[1]])
        return ""

    def _check_active_jobs(self) -> Callable[..., AsyncIterator[SubmittedJobInfo]]:
        async def check(
            executor: Executor, active_jobs: list[SubmittedJobInfo]
        ) -> AsyncIterator[SubmittedJobInfo]:
            self.calls.append(
                " ".join(["check", *(str(job.external_jobid) for job in active_jobs)])
            )
            for job_info in active_jobs:
                if self.state == "RUNNING":
                    yield job_info
                elif self.state:
                    msg = failure(str(job_info.external_jobid), self.state)
                    executor.report_job_error(job_info, msg=msg, aux_logs=[])

        return check

    def submitted(self, number: str) -> SubmittedJobInfo:
        """A job that SLURM accepted, and that is in its queue."""
        log = self.folder / f"{number}.log"
        info = SubmittedJobInfo(Job(), number, {"slurm_logfile": log})
        self.executor.report_job_submission(info)
        self.queue = [*(self.queue or []), queued(number)]
        self.calls.clear()
        return info

    def start(self, number: str, content: str = "", age: float = 0) -> Path:
        """The file of a job's first start, last touched `age` seconds ago."""
        file = self.executor._heartbeats.folder / f"{number}.0"
        file.write_text(content)
        os.utime(file, (time.time() - age,) * 2)
        return file

    def check(self, *active: SubmittedJobInfo) -> list[str | None]:
        """Numbers of the jobs that the executor yields."""

        async def yielded() -> list[str | None]:
            checked = self.executor.check_active_jobs(list(active))
            return [job_info.external_jobid async for job_info in checked]

        return asyncio.run(yielded())


def queued(number: str, where: str = "n1", state: str = "RUNNING", **more: Any) -> QueuedJob:
    job = QueuedJob(number, "me", state, 0, "/project", where, "rule_align")
    return dataclasses.replace(job, **more)


def held(number: str, reason: str = "launch failed requeued held", **more: Any) -> QueuedJob:
    return queued(number, reason, "PENDING", **more)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Harness:
    return Harness(monkeypatch, tmp_path)


def test_a_job_is_submitted_when_the_controller_answers(harness: Harness) -> None:
    answers = [False, False, True, True]
    harness.answers = lambda: answers.pop(0)
    harness.executor.run_job(Job())
    assert answers == [True]
    harness.executor.run_job(Job())
    assert harness.calls == ["run_job", "run_job"]


def test_a_group_of_jobs_is_submitted_and_checked(harness: Harness) -> None:
    info = SubmittedJobInfo(Group(), "12", {"slurm_logfile": harness.folder / "12.log"})
    harness.executor.run_job(info.job)
    harness.executor.report_job_submission(info)
    harness.queue = []
    assert harness.check(info) == ["12"]
    harness.time = 60
    assert harness.check(info) == []
    assert harness.printed == [
        "slurm-patient: group_align: SLURM job 12 was forgotten by SLURM: submitting it again"
    ]


@pytest.mark.parametrize("interrupted", [True, False])
def test_nothing_is_submitted_once_snakemake_ends(harness: Harness, interrupted: bool) -> None:
    def end_meanwhile() -> bool:
        if interrupted:
            harness.executor.cancel_jobs([])
        else:
            harness.executor.shutdown()
        return False

    harness.answers = end_meanwhile
    before = time.monotonic()
    harness.executor.run_job(Job())
    harness.executor.run_job(Job())
    assert time.monotonic() - before < 5
    assert "run_job" not in harness.calls


def test_jobs_are_checked_when_the_controller_answers(harness: Harness) -> None:
    answers = [False, False, True]
    harness.answers = lambda: answers.pop(0)
    assert harness.check(harness.submitted("12")) == ["12"]
    assert answers == []


def test_a_failed_status_query_loses_no_job(harness: Harness) -> None:
    """The plugin yields nothing then; only jobs without a reported end are kept."""
    running, done, failed = (harness.submitted(number) for number in ("12", "13", "14"))
    harness.executor.report_job_success(done)
    harness.executor.report_job_error(failed)
    harness.queue = None
    harness.state = ""
    assert harness.check(running, done, failed) == ["12"]


def test_jobs_are_checked_before_slurm_forgets_that_they_ended(harness: Harness) -> None:
    harness.check(harness.submitted("12"))
    assert harness.executor.next_seconds_between_status_checks == 60


# --- what the executor prints and does when SLURM requeues, holds or forgets a job ----------------


def printed(harness: Harness) -> list[str]:
    """The messages about the only job, without its name."""
    return [line.removeprefix("slurm-patient: align a 1: SLURM job ") for line in harness.printed]


def test_each_requeue_is_printed_once(harness: Harness) -> None:
    info = harness.submitted("12")
    for restarts in (0, 2, 2):
        harness.queue = [queued("12", restarts=restarts)]
        assert harness.check(info) == ["12"]
    assert printed(harness) == ["12 was requeued (restart 2)"]


def test_a_job_that_slurm_holds_is_released_three_times_then_given_up(harness: Harness) -> None:
    info = harness.submitted("12")
    for _ in range(3):
        harness.queue = [held("12")]
        assert harness.check(info) == ["12"]
    assert harness.commands == ["scontrol release 12"] * 3
    reason = "12 was held (launch failed requeued held): released"
    assert printed(harness) == [f"{reason} ({number} of 3)" for number in (1, 2, 3)]
    harness.calls.clear()
    assert harness.check(info) == []
    assert harness.commands[-1] == "scancel 12"
    assert harness.calls == ["error SLURM-job '12' failed, SLURM status is: 'HELD'.", "check"]


def test_a_job_that_may_not_be_released_is_given_up(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.queue = [held("12", "JobHoldMaxRequeue")]
    harness.errors = {"release": "access denied"}
    assert harness.check(info) == []
    assert harness.commands == ["scontrol release 12", "scancel 12"]
    assert printed(harness)[0] == (
        "12 is held (JobHoldMaxRequeue) and could not be released: access denied"
    )


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "job requeued in held state"])
def test_a_job_that_a_person_holds_is_printed_once_and_not_released(
    harness: Harness, reason: str
) -> None:
    info = harness.submitted("12")
    harness.queue = [held("12", reason)]
    assert harness.check(info) == harness.check(info) == ["12"]
    assert harness.commands == []
    assert printed(harness) == [f"12 is held ({reason}) and waits: scontrol release 12"]


def test_a_forgotten_job_is_submitted_again_when_it_is_not_alive(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.queue = []
    assert harness.check(info) == ["12"]
    harness.time = 30
    assert harness.check(info) == ["12"]
    harness.time = 60
    file = harness.start("12", age=SECONDS_OF_SILENCE + 1)
    with file.open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        assert harness.check(info) == ["12"]
    harness.start("12", age=SECONDS_OF_SILENCE - 60)  # on a file system with locks of each node
    assert harness.check(info) == ["12"]
    assert "run_job" not in harness.calls
    harness.start("12", age=SECONDS_OF_SILENCE + 1)
    assert harness.check(info) == []
    assert harness.calls[-2:] == ["run_job", "check"]
    assert printed(harness) == ["12 was forgotten by SLURM: submitting it again"]


def test_a_job_that_ended_without_slurms_notice_is_cancelled_and_submitted_again(
    harness: Harness,
) -> None:
    info = harness.submitted("12")
    harness.start("12", age=SECONDS_OF_SILENCE + 1)
    assert harness.check(info) == ["12"]
    harness.time = 60
    assert harness.check(info) == []
    assert harness.commands == ["scancel 12"]
    assert harness.calls[-2:] == ["run_job", "check"]
    assert printed(harness) == ["12 ended without SLURM's notice: submitting it again"]


def test_a_job_that_was_requeued_and_has_not_started_again_is_not_taken_for_ended(
    harness: Harness,
) -> None:
    info = harness.submitted("12")
    harness.start("12", age=SECONDS_OF_SILENCE + 1)
    harness.queue = [queued("12", restarts=1)]
    for harness.time in (0, 60):
        assert harness.check(info) == ["12"]


def test_a_cancelled_job_has_failed(harness: Harness) -> None:
    """The SLURM plugin does not notice it with `sacct`, which prints `CANCELLED by 1000`."""
    info = harness.submitted("12")
    harness.queue = [queued("12", state="CANCELLED")]
    assert harness.check(info) == []
    assert harness.calls[0] == f"error {failure('12', 'CANCELLED').strip()}"


def test_a_task_of_an_array_is_not_forgotten(harness: Harness) -> None:
    """`squeue` writes another number for it than the plugin."""
    info = harness.submitted("12_1")
    harness.queue = [queued("13")]
    for harness.time in (0, 60):
        assert harness.check(info) == ["12_1"]


def test_an_interrupt_cancels_all_jobs_of_the_run(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake's list of active jobs is empty during a check."""
    by_number: list[SubmittedJobInfo] = []
    monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda _, jobs: by_number.extend(jobs))
    harness.submitted("12")
    elsewhere = harness.submitted("13")
    elsewhere.job.resources["slurm_cluster"] = "elsewhere"  # `scancel --name` does not find it
    harness.executor.cancel_jobs([])
    assert harness.commands == ["scancel --name=rspo_1"]
    assert by_number == [elsewhere]


def test_an_interrupt_waits_for_a_submission_under_way(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job would start after the others were cancelled, and nobody would cancel it."""
    calls, end_of_sbatch = threading.Semaphore(0), threading.Event()

    def submit(executor: Executor, job: Any) -> None:
        calls.release()
        assert end_of_sbatch.wait(60)
        harness.commands.append("sbatch")

    monkeypatch.setattr(plugin.Executor, "run_job", submit)
    monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda *_: None)
    submission = threading.Thread(target=harness.executor.run_job, args=[Job()])
    submission.start()
    assert calls.acquire(timeout=60)
    interrupt = threading.Thread(target=harness.executor.cancel_jobs, args=[[]])
    interrupt.start()
    interrupt.join(0.5)
    assert harness.commands == []
    end_of_sbatch.set()
    submission.join()
    interrupt.join()
    harness.executor.run_job(Job())
    assert harness.commands == ["sbatch", "scancel --name=rspo_1"]


def test_an_interrupt_while_slurm_does_not_answer_says_that_jobs_may_continue(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda *_: None)
    harness.errors = {"--name=rspo_1": "SLURM does not answer"}
    harness.executor.cancel_jobs([])
    assert harness.printed == [
        "slurm-patient: jobs of this run may continue: SLURM does not answer"
    ]


def test_a_job_on_another_cluster_is_not_forgotten(harness: Harness) -> None:
    """`squeue` lists the jobs of one cluster only."""
    info = harness.submitted("12")
    info.job.resources["slurm_cluster"] = "elsewhere"
    harness.queue = []
    for harness.time in (0, 60):
        assert harness.check(info) == ["12"]


def test_a_release_that_slurm_does_not_answer_is_repeated(harness: Harness) -> None:
    info, other = harness.submitted("12"), harness.submitted("13")
    harness.queue = [held("12")]
    harness.errors = {"release": "SLURM does not answer", "12": "SLURM does not answer"}
    assert harness.check(info, other) == ["12", "13"]
    harness.errors = {}
    harness.check(info, other)
    assert harness.commands == [*["scontrol release 12", "scancel 12"], "scontrol release 12"]


def test_a_job_that_slurm_forgot_after_its_end_is_not_submitted_again(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.queue = []
    harness.start("12", "0")
    assert harness.check(info) == ["12"]
    harness.time = 60
    assert harness.check(info) == []
    assert harness.calls[-2:] == ["success", "check"]


def test_a_job_that_is_forgotten_again_and_again_uses_retries_in_the_end(harness: Harness) -> None:
    info = harness.submitted("12")
    job = info.job
    for _ in range(module.RESUBMISSIONS):
        info = SubmittedJobInfo(job, "12", info.aux)
        harness.executor.report_job_submission(info)
        harness.queue = []
        harness.check(info)
        harness.time += 60
        assert harness.check(info) == []
    assert harness.calls.count("run_job") == module.RESUBMISSIONS
    info = SubmittedJobInfo(job, "12", info.aux)
    harness.executor.report_job_submission(info)
    harness.check(info)
    harness.time += 60
    assert harness.check(info) == []
    assert harness.calls.count("run_job") == module.RESUBMISSIONS
    assert "error SLURM-job '12' failed, SLURM status is: 'FORGOTTEN'." in harness.calls


def test_a_forgotten_job_does_not_take_the_state_of_a_job_with_its_number(harness: Harness) -> None:
    """A controller that lost its last seconds gives the numbers again."""
    forgotten = harness.submitted("12")
    harness.queue = []
    new = harness.submitted("12")
    assert harness.check(forgotten, new) == ["12", "12"]
    assert harness.calls == ["check 12"]
    harness.time = 60
    assert harness.check(forgotten, new) == ["12"]
    assert harness.calls[-2:] == ["run_job", "check 12"]


STEP = "srun: error: Unable to confirm allocation for job 12: Invalid job id specified\n"
NO_STEP = "srun: error: Unable to create step for job 12: "
STARTED = "Building DAG of jobs...\n"


@pytest.mark.parametrize(
    ("log", "state", "again"),
    [
        (STARTED + STEP, "FAILED", True),
        (STARTED + STEP, "TIMEOUT", False),
        (STARTED + NO_STEP + "Invalid job id specified\n", "FAILED", True),
        (STARTED + NO_STEP + "Socket timed out on send/recv operation\n", "FAILED", True),
        (STARTED + NO_STEP + "Memory required by task is not available\n", "FAILED", False),
        (STARTED + STARTED + "error: x\n", "FAILED", False),
        (STEP + START + STARTED + STARTED + "error: x\n", "FAILED", False),  # an earlier start
    ],
)
def test_a_job_whose_command_slurm_did_not_start_uses_no_retry(
    harness: Harness, log: str, state: str, again: bool
) -> None:
    info = harness.submitted("12")
    info.aux["slurm_logfile"].write_text(log)
    harness.state = state
    assert harness.check(info) == []
    assert harness.calls[1] == ("run_job" if again else f"error {failure('12', state).strip()}")
    assert printed(harness)[0].startswith("12 was not started (Unable to") == again


def test_jobs_that_are_given_up_are_repeated_at_the_end(harness: Harness) -> None:
    retried, given_up = harness.submitted("12"), harness.submitted("13")
    given_up.job.wildcards = ("b",)
    for info, state in ((retried, "TIMEOUT"), (given_up, "CANCELLED")):
        harness.executor.report_job_error(info, msg=failure(str(info.external_jobid), state))
    assert [line.partition(": set")[0] for line in harness.printed] == [
        "slurm-patient: align a 1: SLURM job 12 ran past its time limit",
        f"slurm-patient: align b: SLURM job 13 was cancelled (scancel) [{harness.folder}/13.log]",
    ]
    harness.executor.run_job(retried.job)
    harness.printed.clear()
    harness.executor.shutdown()
    assert harness.printed == [
        "slurm-patient: given up: align b: SLURM job 13 was cancelled (scancel) "
        f"[{harness.folder}/13.log]",
        "slurm-patient: the run is incomplete: the same command resumes it",
    ]


def test_an_absent_controller_is_printed_once_and_its_return_once(harness: Harness) -> None:
    answers = [True, False, False, True, True]
    harness.answers = lambda: answers.pop(0)
    harness.executor.run_job(Job())
    harness.executor.run_job(Job())
    harness.executor.run_job(Job())
    assert harness.printed == [
        "slurm-patient: SLURM's controller does not answer: waiting for it; running jobs continue",
        "slurm-patient: SLURM's controller answers again",
    ]


def test_the_slurm_plugin_calls_what_is_overridden() -> None:
    """Names in its code that the overrides rely on."""
    assert "run_job" in plugin.Executor._submit_job.__code__.co_names
    reports = {"report_job_success", "report_job_error"}
    assert reports <= set(plugin.Executor.check_active_jobs.__code__.co_names)


def test_a_second_run_in_the_folder_is_refused_before_it_looks_at_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "jobs_in", lambda folder: pytest.fail("it has read the queue"))
    monkeypatch.chdir(tmp_path)
    settings = SimpleNamespace(heartbeat_timeout=SECONDS_OF_SILENCE)
    workflow = SimpleNamespace(workdir_init=str(tmp_path), executor_settings=settings)
    first = module._lock_of_run(Path(".snakemake", "slurm-patient").resolve())
    with first, pytest.raises(WorkflowError, match=f"here: process {os.getpid()} on "):
        Executor(workflow, SimpleNamespace(warning=print))
    module._lock_of_run(Path(".snakemake", "slurm-patient").resolve()).close()
