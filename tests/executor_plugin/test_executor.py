"""The executor with fake SLURM commands, and a SLURM plugin that only records what is called.

Faults that tests can cause on a real SLURM are in test_on_slurm.py.
"""

import asyncio
import os
import shlex
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake.iocontainers import ResourceList
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from snakemake_executor_plugin_slurm_patient import executor as executor_module
from snakemake_executor_plugin_slurm_patient import queue as queue_module
from snakemake_executor_plugin_slurm_patient import start as start_module
from snakemake_executor_plugin_slurm_patient.executor import Executor
from snakemake_executor_plugin_slurm_patient.failures import failure
from snakemake_executor_plugin_slurm_patient.queue import QueuedJob
from snakemake_executor_plugin_slurm_patient.task import Task, file_of
from tests.support.processes import wait_until

SECONDS_MISSING = 60  # three times the setting `init_seconds_before_status_checks`
RUN = "rspo_1"
CONTROLLER_WAS_AWAY = [
    "slurm-patient: SLURM's controller does not answer: waiting for it; running jobs continue",
    "slurm-patient: SLURM's controller answers again",
]
# Records its words in the file `commands`.
COMMAND = """\
#!/bin/sh
cd {folder}
case "$1" in ping) cat ping; exit;; esac
echo "${{0##*/}} $*" >> commands
"""


class Job:
    """A job of Snakemake, with what the executor reads of it."""

    name = "align"
    wildcards = ("a", "1")
    output = ("a/1.bam",)
    threads = 1

    def __init__(self) -> None:
        self.log = ["logs/align/a/1.log"]
        self.resources: dict[str, Any] = {}

    def is_group(self) -> bool:
        return False


class Group:
    """A group of jobs of Snakemake, with what the executor reads of it."""

    name = "group_align"
    output = ("a/1.bam", "a/2.bam")

    def __init__(self) -> None:
        self.resources: dict[str, str] = {}

    def is_group(self) -> bool:
        return True


class Harness:
    """An executor, SLURM's commands, and what the test sees of both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.calls: list[str] = []  # of the SLURM plugin
        self.printed: list[str] = []  # by the executor
        self.state = "RUNNING"  # of every job, according to the plugin; "" if its query fails
        self.time = 0.0  # seconds that have passed besides the real ones
        self.folder = folder
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        for name in ("scontrol", "scancel", "squeue"):
            self.accept(name)
        (folder / "ping").write_text("Slurmctld is UP\n")
        self.set_queue()
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.time)
        monkeypatch.setattr(queue_module, "time", clock)
        self._replace_plugin(monkeypatch)
        settings = SimpleNamespace(
            finished_suffix="",
            unnoticed_end_timeout=SECONDS_MISSING,
            array_jobs=None,
            init_seconds_before_status_checks=SECONDS_MISSING // 3,
        )
        self.settings = settings
        self.workflow = SimpleNamespace(
            executor_settings=settings,
            workdir_init=str(folder),
            storage_settings=SimpleNamespace(shared_fs_usage=SharedFSUsage.all()),
        )
        self.executor = Executor(self.workflow, SimpleNamespace(warning=self.printed.append))

    def _replace_plugin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def init(executor: Any, *args: Any) -> None:
            executor.run_uuid = RUN
            executor.workflow = args[0]
            executor.next_seconds_between_status_checks = 180

        def record(name: str) -> Callable[..., None]:
            def call(executor: Any, *args: Any, msg: str = "", **kwargs: Any) -> None:
                if name.startswith("report_job"):
                    assert isinstance(args[0], SubmittedJobInfo)
                numbers = [info.external_jobid for info in args[0]] if name == "cancel_jobs" else []
                self.calls.append(" ".join([name, *numbers, msg]).strip())

            return call

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

        monkeypatch.setattr(plugin.Executor, "__init__", init)
        monkeypatch.setattr(plugin.Executor, "check_active_jobs", check)
        reports = (f"report_job_{event}" for event in ("submission", "success", "error"))
        for name in ("run_job", "shutdown", "cancel_jobs", *reports):
            monkeypatch.setattr(plugin.Executor, name, record(name))

    @property
    def commands(self) -> list[str]:
        """Commands of SLURM that change something."""
        file = self.folder / "commands"
        return file.read_text().splitlines() if file.exists() else []

    def accept(self, name: str) -> None:
        """Let a command of SLURM do its work."""
        script = COMMAND if name != "squeue" else "#!/bin/sh\ncat {folder}/queue\n"
        (self.folder / name).write_text(script.format(folder=self.folder))
        (self.folder / name).chmod(0o755)

    def refuse(self, name: str, message: str) -> None:
        """Let a command of SLURM fail, except that `scontrol ping` answers."""
        ping = f'case "$1" in ping) cat {self.folder}/ping; exit;; esac\n'
        (self.folder / name).write_text(f"#!/bin/sh\n{ping}echo {message} >&2\nexit 1\n")

    def set_queue(self, *jobs: QueuedJob) -> None:
        records = ("\x1f".join(map(str, astuple(job))) + "\x1e\n" for job in jobs)
        (self.folder / "queue").write_text("".join(records))

    def submitted(self, number: str, job: Any = None) -> SubmittedJobInfo:
        """A job that SLURM accepted, and that is alone in its queue."""
        aux = {"slurm_logfile": self.folder / f"{number}.log"}
        info = SubmittedJobInfo(job or Job(), number, aux)
        self.executor.report_job_submission(info)
        self.set_queue(queued(number))
        self.calls.clear()
        return info

    def task(self) -> Task:
        """The task of every job here."""
        file = file_of(Job(), self.folder / ".snakemake" / "slurm-patient")
        output = str(self.folder / Job.output[0])
        return Task(file, run=RUN, outputs=[output], finished_suffix="", step=None)

    def check(self, *active: SubmittedJobInfo) -> list[str | None]:
        """Numbers of the jobs that the executor yields."""

        async def yielded() -> list[str | None]:
            checked = self.executor.check_active_jobs(list(active))
            return [job_info.external_jobid async for job_info in checked]

        return asyncio.run(yielded())

    def messages(self) -> list[str]:
        """What was printed about the only job, without its name."""
        start = "slurm-patient: align a 1: SLURM job "
        return [line.removeprefix(start) for line in self.printed]


def queued(number: str, reason: str = "n1", state: str = "RUNNING", restarts: int = 0) -> QueuedJob:
    return QueuedJob(number, "me", state, restarts, "/project", reason, "rule_align")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Harness:
    return Harness(monkeypatch, tmp_path)


# --- submissions and the end of a run -------------------------------------------------------------


def test_the_command_of_a_job_begins_with_the_file_of_its_task(harness: Harness) -> None:
    harness.settings.finished_suffix = ".done"
    prefix = harness.executor.get_job_exec_prefix(Job())
    task = Task.read(harness.task().file)
    assert prefix == f"export SLURM_PATIENT_TASK={task.file}"
    assert (task.run, task.outputs) == (RUN, [str(harness.folder / "a" / "1.bam")])
    assert task.finished_suffix == ".done"
    assert task.step is not None
    assert task.step[:2] == ["-n1", "--cpu-bind=q"]


def test_the_prefix_of_the_slurm_plugin_stays(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin.Executor, "get_job_exec_prefix", lambda executor, job: "cd /scratch")
    prefix = harness.executor.get_job_exec_prefix(Job())
    assert prefix == f"cd /scratch && export SLURM_PATIENT_TASK={harness.task().file}"


@pytest.mark.parametrize(
    ("resources", "option"),
    [({}, "--cpus-per-task=1"), ({"cpus_per_gpu": 4}, "--cpus-per-gpu=4")],
)
def test_the_step_of_a_job_gets_the_cores_that_the_job_requests(
    harness: Harness, resources: dict[str, int], option: str
) -> None:
    job = Job()
    job.resources = ResourceList(fromdict=resources)
    harness.executor.get_job_exec_prefix(job)
    step = Task.read(harness.task().file).step
    assert step is not None
    assert option in step


def test_a_job_starts_the_program_of_this_plugin_which_starts_the_step(harness: Harness) -> None:
    words = shlex.split(harness.executor.get_python_executable())
    assert words == ["exec", sys.executable, str(Path(start_module.__file__).resolve())]
    assert harness.executor.additional_general_args() == ""


def test_a_job_that_shares_no_folder_starts_as_with_the_slurm_plugin(harness: Harness) -> None:
    harness.workflow.storage_settings.shared_fs_usage = frozenset()
    harness.settings.pass_command_as_script = False
    assert harness.executor.get_job_exec_prefix(Job()) == ""
    assert not harness.task().file.exists()
    assert harness.executor.get_python_executable() == "python"
    assert harness.executor.additional_general_args() == "--executor slurm-jobstep --jobs 1"


def test_a_controller_that_does_not_answer_is_said_once_and_so_is_its_answer(
    harness: Harness,
) -> None:
    (harness.folder / "ping").write_text("Slurmctld is DOWN\n")
    assert not harness.executor._controller_answers()
    command = (harness.folder / "scontrol").read_text()
    (harness.folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert not harness.executor._controller_answers()
    (harness.folder / "scontrol").write_text(command)
    (harness.folder / "ping").write_text("Slurmctld is UP\n")
    assert harness.executor._controller_answers()
    assert harness.executor._controller_answers()
    assert harness.printed == [
        "slurm-patient: SLURM's controller does not answer: waiting for it; running jobs continue",
        "slurm-patient: SLURM's controller answers again",
    ]


@pytest.mark.parametrize("interrupted", [True, False])
def test_nothing_is_submitted_once_snakemake_ends(harness: Harness, interrupted: bool) -> None:
    (harness.folder / "ping").write_text("Slurmctld is DOWN\n")
    waiting = threading.Thread(target=harness.executor.run_job, args=[Job()])
    waiting.start()
    wait_until(lambda: harness.printed)
    if interrupted:
        harness.executor.cancel_jobs([])
    else:
        harness.executor.shutdown()
    waiting.join(60)
    (harness.folder / "ping").write_text("Slurmctld is UP\n")
    harness.executor.run_job(Job())
    assert "run_job" not in harness.calls


def test_a_job_is_submitted_when_the_controller_answers_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would spend all its retries while the controller restarts."""
    monkeypatch.setattr(executor_module, "SECONDS_BETWEEN_PINGS", 0.01)
    (harness.folder / "ping").write_text("Slurmctld is DOWN\n")
    waiting = threading.Thread(target=harness.executor.run_job, args=[Job()])
    waiting.start()
    wait_until(lambda: harness.printed)
    assert harness.calls == []
    (harness.folder / "ping").write_text("Slurmctld is UP\n")
    waiting.join(60)
    harness.executor.run_job(Job())
    assert harness.calls == ["run_job", "run_job"]
    assert harness.printed == CONTROLLER_WAS_AWAY


def test_an_interrupt_cancels_all_jobs_of_the_run(harness: Harness) -> None:
    """Snakemake's list of active jobs is empty during a check."""
    harness.submitted("12")
    elsewhere = harness.submitted("13")
    elsewhere.job.resources["slurm_cluster"] = "elsewhere"  # `scancel --name` does not find it
    harness.executor.cancel_jobs([])
    assert harness.commands == [f"scancel --name={RUN}"]
    assert harness.calls == ["cancel_jobs 13"]


def test_an_interrupt_waits_for_a_submission_under_way(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job would start after the others were cancelled, and nobody would cancel it."""
    calls, end_of_sbatch = threading.Semaphore(0), threading.Event()

    def submit(executor: Executor, job: Any) -> None:
        calls.release()
        assert end_of_sbatch.wait(60)

    monkeypatch.setattr(plugin.Executor, "run_job", submit)
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
    assert harness.commands == [f"scancel --name={RUN}"]


def test_an_interrupt_while_slurm_does_not_answer_says_that_jobs_may_continue(
    harness: Harness,
) -> None:
    harness.refuse("scancel", "timed out")
    harness.executor.cancel_jobs([])
    (line,) = harness.printed
    assert line.startswith("slurm-patient: jobs of this run may continue: ")
    assert "timed out" in line


# --- status queries -------------------------------------------------------------------------------


def test_a_failed_status_query_loses_no_job(harness: Harness) -> None:
    """The plugin yields nothing then; only jobs without a reported end are kept."""
    running, done, failed = (harness.submitted(number) for number in ("12", "13", "14"))
    harness.executor.report_job_success(done)
    harness.executor.report_job_error(failed)
    (harness.folder / "squeue").write_text("#!/bin/sh\nexit 1\n")
    harness.state = ""
    assert harness.check(running, done, failed) == ["12"]


def test_jobs_are_checked_when_the_controller_answers_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "SECONDS_BETWEEN_PINGS", 0.01)
    info = harness.submitted("12")
    (harness.folder / "ping").write_text("Slurmctld is DOWN\n")
    found: list[str | None] = []
    check = threading.Thread(target=lambda: found.extend(harness.check(info)))
    check.start()
    wait_until(lambda: harness.printed)
    assert harness.calls == []
    (harness.folder / "ping").write_text("Slurmctld is UP\n")
    check.join(60)
    assert found == ["12"]
    assert harness.calls == ["check 12"]
    assert harness.printed == CONTROLLER_WAS_AWAY
    # SLURM must not forget an ended job between two checks.
    assert harness.executor.next_seconds_between_status_checks == SECONDS_MISSING


def test_a_job_on_another_cluster_is_not_forgotten(harness: Harness) -> None:
    """`squeue` lists the jobs of one cluster only."""
    info = harness.submitted("12")
    info.job.resources["slurm_cluster"] = "elsewhere"
    harness.set_queue()
    for harness.time in (0, SECONDS_MISSING):
        assert harness.check(info) == ["12"]


def test_a_group_of_jobs_that_slurm_forgot_has_failed(harness: Harness) -> None:
    """A group has no wildcards and no logs of its own."""
    info = harness.submitted("12", Group())
    harness.set_queue()
    assert harness.check(info) == ["12"]
    harness.time = SECONDS_MISSING
    assert harness.check(info) == []
    log = harness.folder / "12.log"
    assert harness.printed == [
        f"slurm-patient: group_align: SLURM job 12 was forgotten by SLURM [{log}]"
    ]


def test_a_job_that_slurm_holds_is_released_three_times_then_given_up(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.set_queue(queued("12", "launch failed requeued held", "PENDING"))
    for _ in range(3):
        assert harness.check(info) == ["12"]
    assert harness.commands == ["scontrol release 12"] * 3
    reason = "12 was held (launch failed requeued held): released"
    assert harness.messages() == [f"{reason} ({number} of 3)" for number in (1, 2, 3)]
    harness.calls.clear()
    assert harness.check(info) == []
    assert harness.commands[-1] == "scancel 12"
    assert harness.calls == [f"report_job_error {failure('12', 'HELD').strip()}", "check"]


def test_a_job_that_may_not_be_released_is_given_up(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.set_queue(queued("12", "JobHoldMaxRequeue", "PENDING"))
    harness.refuse("scontrol", "access denied")
    assert harness.check(info) == []
    assert harness.commands == ["scancel 12"]
    assert harness.calls[0] == f"report_job_error {failure('12', 'HELD').strip()}"
    held = harness.messages()[0]
    assert held.startswith("12 is held (JobHoldMaxRequeue) and could not be released: ")
    assert "access denied" in held


def test_a_release_that_slurm_does_not_answer_is_repeated(harness: Harness) -> None:
    """Neither that job nor another one is lost meanwhile."""
    held, other = harness.submitted("12"), harness.submitted("13")
    queue = [queued("12", "launch failed requeued held", "PENDING"), queued("13")]
    harness.set_queue(*queue)
    harness.refuse("scontrol", "timed out")
    harness.refuse("scancel", "timed out")
    assert harness.check(held, other) == ["12", "13"]
    assert harness.commands == []
    harness.accept("scontrol")
    assert harness.check(held, other) == ["12", "13"]
    assert harness.commands == ["scontrol release 12"]


FORGOTTEN, UNNOTICED = "was forgotten by SLURM", "has ended without SLURM's notice"
HELD_BY_PEOPLE = ("JobHeldUser", "JobHeldAdmin", "job requeued in held state")
RELEASED = "was held (BadConstraints): released"


@pytest.mark.parametrize(
    ("listed", "start", "state", "commands", "messages"),
    [
        # `squeue` does not list it, whether a start of it works or not.
        (None, "none", "FORGOTTEN", [], [FORGOTTEN]),
        (None, "works", "FORGOTTEN", [], [FORGOTTEN]),
        # It runs, says SLURM.
        ({}, "none", None, [], []),
        ({}, "works", None, [], []),
        ({}, "has ended", "UNNOTICED", ["scancel"], [UNNOTICED]),
        ({"restarts": 2}, "has ended", None, [], ["was requeued (restart 2)"]),  # not started again
        # With `sacct`, which prints `CANCELLED by 1000`, the SLURM plugin does not notice it.
        ({"state": "CANCELLED"}, "none", "CANCELLED", [], ["was cancelled"]),
        # SLURM holds it: it is released at each of the two checks. A person holds it: it waits.
        (
            {"reason": "BadConstraints"},
            "none",
            None,
            ["scontrol release"] * 2,
            [f"{RELEASED} (1 of 3)", f"{RELEASED} (2 of 3)"],
        ),
        *(
            ({"reason": reason}, "none", None, [], [f"is held ({reason}) and waits: scontrol"])
            for reason in HELD_BY_PEOPLE
        ),
    ],
)
def test_what_becomes_of_a_job_that_slurm_shows_like_this_for_a_minute(
    harness: Harness,
    listed: dict[str, Any] | None,
    start: str,
    state: str | None,
    commands: list[str],
    messages: list[str],
) -> None:
    """State of the reported failure (None: Snakemake waits on), commands of SLURM, printed lines.

    start: what the first start of the job does.
    """
    active = [harness.submitted("12")]
    harness.set_queue(*([] if listed is None else [replace(queued("12"), **listed)]))
    task = harness.task()
    task.write()
    with ExitStack() as works:
        if start != "none":
            works.enter_context(task.locked(say=print))
            task.record_start("12.0")
        if start == "has ended":
            works.close()
        for harness.time in (0, SECONDS_MISSING):
            active = active if harness.check(*active) else []
    assert bool(active) == (state is None)
    error = f"report_job_error {failure('12', state or '').strip()}"
    calls = [call for call in harness.calls if not call.startswith("check")]
    assert calls == ([] if state is None else [error])
    assert harness.commands == [f"{command} 12" for command in commands]
    said = [line.partition(": SLURM job 12 ")[2] for line in harness.printed]
    assert len(said) == len(messages)
    assert all(map(str.startswith, said, messages)), said


def test_a_job_that_a_person_holds_is_a_line_at_the_first_check_only(harness: Harness) -> None:
    info = harness.submitted("12")
    harness.set_queue(queued("12", "JobHeldUser", "PENDING"))
    for _ in range(3):
        assert harness.check(info) == ["12"]
        assert harness.messages() == ["12 is held (JobHeldUser) and waits: scontrol release 12"]


def test_a_job_of_an_earlier_run_that_has_ended_without_slurms_notice_is_cancelled(
    harness: Harness,
) -> None:
    harness.set_queue(replace(queued("12"), folder=str(harness.folder)))
    task = harness.task()
    task.write()
    with task.locked(say=print):
        task.record_start("12.0")
        with pytest.raises(WorkflowError, match="cancel them: scancel 12"):
            harness.executor._require_no_jobs_in(str(harness.folder))
        assert harness.commands == []
    harness.executor._require_no_jobs_in(str(harness.folder))
    assert harness.commands == ["scancel 12"]
    assert harness.printed[0].endswith("earlier run, which has ended without SLURM's notice")


def test_the_first_jobs_of_another_run_are_named_and_all_are_counted(harness: Harness) -> None:
    jobs = [replace(queued(number), folder=str(harness.folder)) for number in "56789"]
    harness.set_queue(*jobs)
    with pytest.raises(WorkflowError) as error:
        harness.executor._require_no_jobs_in(str(harness.folder))
    named = ", ".join(f"{number} (rule_align, me, RUNNING)" for number in "567")
    assert f": {named} and 2 more. " in str(error.value)
    assert str(error.value).endswith(": scancel 5 6 7 8 9")


def test_a_job_that_squeue_lists_again_is_not_forgotten(harness: Harness) -> None:
    """The time for which it was missing counts from the last time that it was listed."""
    info = harness.submitted("12")
    for harness.time, jobs in ((0, []), (40, [queued("12")]), (80, []), (120, [])):
        harness.set_queue(*jobs)
        assert harness.check(info) == ["12"]


def test_a_forgotten_job_has_failed_when_slurm_gives_its_number_to_another_one(
    harness: Harness,
) -> None:
    """A controller that lost its last seconds gives numbers again; the states are the new job's."""
    forgotten = harness.submitted("12")
    new = SubmittedJobInfo(Job(), "12", forgotten.aux)
    harness.executor.report_job_submission(new)
    assert harness.calls[0] == f"report_job_error {failure('12', 'FORGOTTEN').strip()}"
    assert harness.check(forgotten, new) == ["12"]
    assert harness.calls[-1] == "check 12"


def test_a_failed_job_whose_outputs_are_finished_is_submitted_once_more(harness: Harness) -> None:
    """Snakemake would remove the outputs of a failed job. Its next start does nothing."""
    output = harness.folder / Job.output[0]
    output.parent.mkdir()
    output.touch()
    job = Job()
    first = harness.submitted("12", job)
    harness.task().write()
    harness.task().record_success()
    harness.state = "CANCELLED"
    assert harness.check(first) == []
    assert harness.calls == ["check 12", "run_job"]
    said = "its outputs are finished: submitting it again, to do nothing"
    assert harness.messages()[0].endswith(said)
    second = harness.submitted("13", job)
    assert harness.check(second) == []
    assert harness.calls[-1] == f"report_job_error {failure('13', 'CANCELLED').strip()}"


def test_a_job_that_could_not_be_submitted_has_failed(harness: Harness) -> None:
    """Whatever an earlier run left of its task, and whatever its resources are."""
    output = harness.folder / Job.output[0]
    output.parent.mkdir()
    output.touch()
    harness.task().write()
    harness.task().record_success()
    job = Job()
    job.resources["cpus_per_task"] = "four"
    harness.executor.report_job_error(SubmittedJobInfo(job), msg="no")
    assert harness.calls == ["report_job_error no"]


def test_arrays_of_jobs_are_refused(harness: Harness) -> None:
    harness.settings.array_jobs = "all"
    with pytest.raises(WorkflowError, match="unset array-jobs"):
        Executor(harness.workflow, SimpleNamespace(warning=print))
