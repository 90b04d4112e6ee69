"""The executor with a controller and a plugin that tests control; no SLURM."""

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from rspo.core.errors import InputError
from rspo.core.locks import exclusive_lock
from rspo.slurm import executor as module
from rspo.slurm.cluster import Slurm
from rspo.slurm.data_checks import PromptCheck
from rspo.slurm.executor import Executor
from rspo.slurm.messages import failure
from rspo.slurm.queue import QueuedJob

TASK = "train small--rspo-pass--k4--n8--s0"


class Job:
    """A job of Snakemake, with what the executor reads of it."""

    name = "train"

    def __init__(self, folder: Path) -> None:
        self.log = ["logs/train/small--rspo-pass--k4--n8--s0.log"]
        self.resources: dict[str, str] = {}
        self.output = [str(folder / "policy"), str(folder / "training.jsonl")]

    def is_group(self) -> bool:
        return False


class Group:
    """A group of jobs; it has neither `rule` nor `wildcards_dict`."""

    name = "group_train"

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = jobs
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
        self.complete = False
        monkeypatch.setattr(module, "SECONDS_BETWEEN_PINGS", 0.01)
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.time, sleep=time.sleep)
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "jobs_of", self._jobs_of)
        monkeypatch.setattr(module, "is_complete", lambda workflow, job: self.complete)
        monkeypatch.setattr(Slurm, "ask", lambda slurm, *words: self._ask(*words))
        self.status_command = "squeue"
        monkeypatch.setattr(plugin.Executor, "get_status_command", lambda _: self.status_command)
        for name in ("run_job", "cancel", "shutdown"):
            monkeypatch.setattr(plugin.Executor, name, self._record(name))
        for name in ("submission", "success", "error"):
            monkeypatch.setattr(plugin.Executor, f"report_job_{name}", self._record(name))
        monkeypatch.setattr(plugin.Executor, "check_active_jobs", self._check_active_jobs())
        monkeypatch.setattr(plugin.Executor, "next_seconds_between_status_checks", 180)
        self.executor = Executor.__new__(Executor)
        self.executor._ending, self.executor._submitting = threading.Event(), []
        # In tests of `run_job`, a job is the message about its problems.
        problem_of = lambda job: job if isinstance(job, str) else ""  # noqa: E731
        self.executor.prompts = SimpleNamespace(problem_of=problem_of)
        self.executor._submissions, self.executor._owners = {}, {}
        self.executor._resubmissions, self.executor._seconds = Counter(), 60
        self.executor._controller = SimpleNamespace(answers=lambda: self.answers())
        self.executor.workflow, self.executor.run_uuid = None, "rspo_1"

    def _record(self, name: str) -> Callable[..., None]:
        return lambda executor, *args, msg="", **kwargs: self.calls.append(f"{name} {msg}".strip())

    def _jobs_of(self, run: str) -> list[QueuedJob]:
        if self.queue is None:
            raise InputError("SLURM does not answer")
        return self.queue

    def _ask(self, *words: str) -> str:
        self.commands.append(" ".join(words))
        if words[1] in self.errors:
            raise InputError(self.errors[words[1]])
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
        (self.folder / number).mkdir(exist_ok=True)
        log = self.folder / f"{number}.log"
        info = SubmittedJobInfo(Job(self.folder / number), number, {"slurm_logfile": log})
        self.executor.report_job_submission(info)
        self.queue = [*(self.queue or []), queued(number)]
        self.calls.clear()
        return info

    def check(self, *active: SubmittedJobInfo) -> list[str | None]:
        """Numbers of the jobs that the executor yields."""

        async def yielded() -> list[str | None]:
            checked = self.executor.check_active_jobs(list(active))
            return [job_info.external_jobid async for job_info in checked]

        return asyncio.run(yielded())


def queued(number: str, where: str = "n1", state: str = "RUNNING", **more: Any) -> QueuedJob:
    job = QueuedJob(number, "me", state, 0, Path("/project"), "", where, "rule_train")
    return dataclasses.replace(job, **more)


def held(number: str, reason: str = "launch failed requeued held", **more: Any) -> QueuedJob:
    return queued(number, f"({reason})", "PENDING", **more)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Harness:
    return Harness(monkeypatch, tmp_path)


def test_a_job_is_submitted_when_the_controller_answers(harness: Harness) -> None:
    answers = [False, False, True, True]
    harness.answers = lambda: answers.pop(0)
    harness.executor.run_job("")
    assert answers == [True]
    harness.executor.run_job("")
    assert harness.calls == ["run_job", "run_job"]


def test_a_job_whose_problems_do_not_fit_its_model_is_not_submitted(harness: Harness) -> None:
    harness.executor.run_job("small on train: a prompt is too long")
    assert harness.calls == ["error small on train: a prompt is too long"]


def test_an_unexpected_error_in_the_check_of_a_job_is_reported(harness: Harness) -> None:
    """It would be lost in the plugin's thread, and Snakemake would wait for the job forever."""

    def fail(job: Any) -> str:
        raise OSError("stale file handle")

    harness.executor.prompts = SimpleNamespace(problem_of=fail)
    harness.executor.run_job("")
    assert harness.calls == ["error OSError: stale file handle"]


def test_a_group_of_jobs_is_submitted_and_checked(harness: Harness) -> None:
    member = harness.submitted("11").job
    group = Group([member])
    assert PromptCheck(SimpleNamespace()).problem_of(group) == ""
    info = SubmittedJobInfo(group, "12", {"slurm_logfile": harness.folder / "12.log"})
    harness.executor.report_job_submission(info)
    harness.queue = []
    assert harness.check(info) == ["12"]
    harness.time = 60
    with exclusive_lock(harness.folder / "11"):
        assert harness.check(info) == ["12"]
    assert harness.check(info) == []


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


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The messages about task TASK, without its name."""
    return [
        line.removeprefix(f"rspo: {TASK}: SLURM job ")
        for line in capsys.readouterr().err.split("\n")
    ][:-1]


def test_each_requeue_is_printed_once(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    info = harness.submitted("12")
    for restarts in (0, 2, 2):
        harness.queue = [queued("12", restarts=restarts)]
        assert harness.check(info) == ["12"]
    assert printed(capsys) == ["12 was requeued (restart 2)"]


def test_a_job_that_slurm_holds_is_released_on_another_node_then_given_up(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    info = harness.submitted("12")
    assert harness.check(info) == ["12"]  # it is seen on n1
    for _ in range(3):
        harness.queue = [held("12", excluded="n7")]
        assert harness.check(info) == ["12"]
    assert harness.commands == [
        "scontrol update JobId=12 ExcNodeList=n7,n1",
        *["scontrol release 12"] * 3,
    ]
    reason = "12 was held (launch failed requeued held): released"
    assert printed(capsys) == [
        f"{reason} (1 of 3), without n1",
        f"{reason} (2 of 3)",
        f"{reason} (3 of 3)",
    ]
    harness.calls.clear()
    assert harness.check(info) == []
    assert harness.commands[-1] == "scancel 12"
    assert harness.calls == ["error SLURM-job '12' failed, SLURM status is: 'HELD'.", "check"]


def test_a_job_that_may_not_be_released_is_given_up(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    info = harness.submitted("12")
    harness.queue = [held("12", "JobHoldMaxRequeue")]
    harness.errors = {"release": "access denied"}
    assert harness.check(info) == []
    assert harness.commands == ["scontrol release 12", "scancel 12"]
    assert printed(capsys) == [
        "12 is held (JobHoldMaxRequeue) and could not be released: access denied"
    ]


def test_a_node_is_allowed_again_if_no_other_can_run_the_job(harness: Harness) -> None:
    info = harness.submitted("12")
    assert harness.check(info) == ["12"]
    harness.queue = [held("12", excluded="n7")]
    assert harness.check(info) == ["12"]
    harness.queue = [held("12", "BadConstraints", excluded="n[1,7]")]
    assert harness.check(info) == ["12"]
    assert harness.commands[-1] == "scontrol update JobId=12 ExcNodeList=n7"


def test_a_node_that_may_not_be_allowed_again_ends_the_job(harness: Harness) -> None:
    info = harness.submitted("12")
    assert harness.check(info) == ["12"]
    harness.queue = [held("12")]
    assert harness.check(info) == ["12"]
    harness.queue, harness.errors = [held("12", "BadConstraints")], {"update": "access denied"}
    assert harness.check(info) == []
    assert harness.commands[-1] == "scancel 12"


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "job requeued in held state"])
def test_a_job_that_a_person_holds_is_printed_once_and_not_released(
    harness: Harness, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    info = harness.submitted("12")
    harness.queue = [held("12", reason)]
    assert harness.check(info) == harness.check(info) == ["12"]
    assert harness.commands == []
    assert printed(capsys) == [f"12 is held ({reason}) and waits: scontrol release 12"]


def test_a_forgotten_job_is_submitted_again_when_its_folder_is_not_locked(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    info = harness.submitted("12")
    harness.queue = []
    assert harness.check(info) == ["12"]
    harness.time = 30
    assert harness.check(info) == ["12"]
    harness.time = 60
    with exclusive_lock(harness.folder / "12"):
        assert harness.check(info) == ["12"]
    assert "run_job" not in harness.calls
    assert harness.check(info) == []
    assert harness.calls[-2:] == ["run_job", "check"]
    assert printed(capsys) == ["12 was forgotten by SLURM: submitting it again"]


def test_a_task_of_an_array_is_not_forgotten(harness: Harness) -> None:
    """`squeue` writes another number for it than the plugin."""
    info = harness.submitted("12_1")
    harness.queue = [queued("13")]
    for harness.time in (0, 60):
        assert harness.check(info) == ["12_1"]


def test_accounting_may_show_the_end_of_a_job_late(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.queue, harness.status_command = [], "sacct"
    for harness.time in (0, 1800):
        assert harness.check(info) == ["12"]
    harness.time = module.SECONDS_OF_ACCOUNTING
    assert harness.check(info) == []
    assert "run_job" in harness.calls


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
    monkeypatch.setattr(plugin.Executor, "cancel", lambda executor: executor.cancel_jobs([]))
    submission = threading.Thread(target=harness.executor.run_job, args=[""])
    submission.start()
    assert calls.acquire(timeout=60)
    interrupt = threading.Thread(target=harness.executor.cancel)
    interrupt.start()
    interrupt.join(0.5)
    assert harness.commands == []
    end_of_sbatch.set()
    submission.join()
    interrupt.join()
    harness.executor.run_job("")
    assert harness.commands == ["sbatch", "scancel --name=rspo_1"]


def test_an_interrupt_while_slurm_does_not_answer_says_that_jobs_may_continue(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda *_: None)
    harness.errors = {"--name=rspo_1": "SLURM does not answer"}
    harness.executor.cancel_jobs([])
    assert capsys.readouterr().err == "rspo: jobs of this run may continue: SLURM does not answer\n"


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
    harness.queue, harness.complete = [], True
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
        (STARTED + STARTED + "rspo: error: x\n", "FAILED", False),
        (STARTED + STEP + STARTED + STARTED + "rspo: error: x\n", "FAILED", False),  # earlier start
    ],
)
def test_a_job_whose_command_slurm_did_not_start_uses_no_retry(
    harness: Harness, capsys: pytest.CaptureFixture[str], log: str, state: str, again: bool
) -> None:
    info = harness.submitted("12")
    info.aux["slurm_logfile"].write_text(log)
    harness.state = state
    assert harness.check(info) == []
    assert harness.calls[1] == ("run_job" if again else f"error {failure('12', state).strip()}")
    assert [line.startswith("12 was not started (Unable to") for line in printed(capsys)] == (
        [True] if again else []
    )


def test_the_plugins_source_needs_these_overrides() -> None:
    """Names in the plugin's code that the overrides rely on."""
    assert "run_job" in plugin.Executor._submit_job.__code__.co_names
    reports = {"report_job_success", "report_job_error"}
    assert reports <= set(plugin.Executor.check_active_jobs.__code__.co_names)
