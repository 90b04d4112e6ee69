"""The executor: Snakemake's SLURM plugin, with overridden methods of the executor interface."""

import asyncio
import fcntl
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from snakemake_executor_plugin_slurm_patient.failures import (
    explanation,
    failure,
    state_of,
    step_error,
)
from snakemake_executor_plugin_slurm_patient.heartbeat import Heartbeats
from snakemake_executor_plugin_slurm_patient.queue import (
    HELD_BY_SLURM,
    NoAnswer,
    QueuedJob,
    Submission,
    ask,
    controller_answers,
    jobs_in,
    jobs_of,
)

SECONDS_BETWEEN_PINGS = 5
# How often a job is submitted again because SLURM forgot it or did not start its command. These
# submissions are not among Snakemake's `retries`.
RESUBMISSIONS = 5


@dataclass
class ExecutorSettings(plugin.ExecutorSettings):
    """The settings of the SLURM plugin, and one more."""

    heartbeat_timeout: int = field(
        default=600,
        metadata={
            "help": "Seconds without a sign of life after which a job counts as ended, although "
            "SLURM shows it as running or has forgotten it. Each job touches a file in .snakemake "
            "twelve times as often. Must be longer than SLURM takes to notice a lost node "
            "(SlurmdTimeout, by default 300 seconds), whose jobs it requeues itself."
        },
    )


class Executor(plugin.Executor):
    next_seconds_between_status_checks: int

    def __init__(self, workflow: Any, logger: Any) -> None:
        self.logger = logger
        folder = Path(".snakemake", "slurm-patient").resolve()
        self._run = _lock_of_run(folder)  # held until this process ends
        self._heartbeats = Heartbeats(folder, workflow.executor_settings.heartbeat_timeout)
        self._require_no_jobs_in(workflow.workdir_init)
        self._ending = threading.Event()
        self._submitting: list[Any] = []  # a job for each thread that may be calling `sbatch`
        self._controller_answered = True
        self._pinging = threading.Lock()  # otherwise an old answer may overtake a newer one
        self._submissions: dict[Any, Submission] = {}  # the last one of each unfinished job
        self._owners: dict[str, Any] = {}  # by number of a SLURM job: the last job that got it
        self._resubmissions: Counter[Any] = Counter()  # by job
        self._failed: dict[str, str] = {}  # by task: why its last try failed
        # Shorter than SLURM remembers ended jobs (`MinJobAge`, usually five minutes).
        self._seconds = 3 * workflow.executor_settings.init_seconds_before_status_checks
        super().__init__(workflow, logger)

    def _say(self, line: str) -> None:
        self.logger.warning(f"slurm-patient: {line}")

    def get_python_executable(self) -> str:
        python: str = super().get_python_executable()
        shared = self.workflow.storage_settings.shared_fs_usage
        if {SharedFSUsage.PERSISTENCE, SharedFSUsage.SOFTWARE_DEPLOYMENT} <= set(shared):
            return self._heartbeats.python(python)
        return python

    def _require_no_jobs_in(self, folder: str) -> None:
        """Prevent that the same work is submitted twice.

        No other run is active in the folder. Cancels jobs of an earlier run that SLURM itself
        holds, because nobody would release them, and jobs that have ended although SLURM shows them
        as running.
        """
        jobs = [job for job in jobs_in(folder) if not self._cancel_if_left(job)]
        if not jobs:
            return
        named = [f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in jobs[:3]]
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        numbers = " ".join(job.number for job in jobs)
        raise WorkflowError(
            f"{folder}: SLURM jobs of another run work in this folder: {', '.join(named)}{more}. "
            f"Wait until they end (their files are kept) or cancel them: scancel {numbers}"
        )

    def _has_ended(self, job: QueuedJob) -> bool:
        """Whether a job has ended although SLURM shows it as running."""
        return job.state == "RUNNING" and self._heartbeats.has_ended(job.number, job.restarts)

    def _cancel_if_left(self, job: QueuedJob) -> bool:
        if job.reason in HELD_BY_SLURM:
            reason = f"was held ({job.reason})"
        elif self._has_ended(job):
            reason = "has ended without SLURM's notice"
        else:
            return False
        with suppress(NoAnswer):  # it belongs to another user
            ask("scancel", job.number)
            self._say(f"cancelled SLURM job {job.number} of an earlier run, which {reason}")
            return True
        return False

    def _controller_answers(self) -> bool:
        """Whether it answers now; may be called from any thread."""
        with self._pinging:
            answers = controller_answers()
            if answers != self._controller_answered:
                absent = "does not answer: waiting for it; running jobs continue"
                self._say(f"SLURM's controller {'answers again' if answers else absent}")
            self._controller_answered = answers
            return answers

    def run_job(self, job: Any) -> None:
        """Submit a job as soon as SLURM's controller answers.

        `sbatch` gives up after 10 seconds (SLURM's MessageTimeout). While a controller restarts,
        a job would spend all of its retries on failed submissions.
        """
        self._failed.pop(_task(job), None)
        while not self._ending.is_set() and not self._controller_answers():
            self._ending.wait(SECONDS_BETWEEN_PINGS)
        self._submitting.append(job)  # before it reads `_ending`, as `cancel_jobs` relies on it
        try:
            if not self._ending.is_set():
                super().run_job(job)
        finally:
            self._submitting.remove(job)

    def report_job_submission(self, job_info: SubmittedJobInfo, *args: Any, **kwargs: Any) -> None:
        job, number = job_info.job, str(job_info.external_jobid)
        self._submissions[job] = Submission(job_info, _task(job), self._say)
        # A controller that lost its last seconds gives the numbers of forgotten jobs to new ones.
        self._owners[number] = job
        self._heartbeats.forget(number)
        super().report_job_submission(job_info, *args, **kwargs)

    def _submit_again(self, submission: Submission, reason: str) -> bool:
        """Submit a job again without using a retry; False after `RESUBMISSIONS` times."""
        job = submission.info.job
        if self._resubmissions[job] == RESUBMISSIONS:
            return False
        self._resubmissions[job] += 1
        self._submissions.pop(job, None)
        submission.say(f"{reason}: submitting it again")
        self.run_job(job)
        return True

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self._submissions.pop(job_info.job, None)
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        job, number, msg = job_info.job, job_info.external_jobid, msg or ""
        submission = self._submissions.pop(job, None)
        log = [job_info.aux["slurm_logfile"]] if job_info.aux else []
        error = step_error(log[0]) if log and state_of(msg) == "FAILED" else ""
        if submission and error and self._submit_again(submission, f"was not started ({error})"):
            return
        logs = [] if job.is_group() else [Path(path) for path in job.log]
        line = f"{_task(job)}: {explanation(number, msg, [*logs, *log])}"
        self._failed[_task(job)] = line  # before Snakemake may submit the job again
        super().report_job_error(job_info, msg=msg, **kwargs)
        self._say(line)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Yield the jobs that still run; wait while SLURM's controller does not answer.

        The SLURM plugin yields no job when its status queries fail, and Snakemake would then wait
        for these jobs forever without checking them again. They are yielded here.
        """
        while active_jobs and not self._ending.is_set() and not self._controller_answers():
            await asyncio.sleep(SECONDS_BETWEEN_PINGS)
        with suppress(NoAnswer):
            queue = jobs_of(self.run_uuid) if active_jobs else {}
            active_jobs = [info for info in active_jobs if self._is_active(info, queue)]
        # The SLURM plugin would take the state of another job with the same number.
        checked = [info for info in active_jobs if self._has_number(info)]
        yielded = set()
        async for job_info in super().check_active_jobs(checked):
            yielded.add(job_info.job)
            yield job_info
        for job_info in active_jobs:
            submission = self._submissions.get(job_info.job)
            if submission and submission.info is job_info and job_info.job not in yielded:
                yield job_info
        self.next_seconds_between_status_checks = min(
            self.next_seconds_between_status_checks, self._seconds
        )

    def _has_number(self, job_info: SubmittedJobInfo) -> bool:
        """Whether SLURM gave the job's number to no later job."""
        return self._owners.get(str(job_info.external_jobid)) is job_info.job

    def _is_active(self, job_info: SubmittedJobInfo, queue: Mapping[str, QueuedJob]) -> bool:
        """Whether Snakemake must wait for a job; if not, its end is reported or it is submitted."""
        job, number = job_info.job, str(job_info.external_jobid)
        submission = self._submissions[job]
        # `squeue` writes another number for a task of an array than the SLURM plugin.
        if _is_elsewhere(job) or "_" in number:
            return True
        queued = queue.get(number) if self._has_number(job_info) else None
        ended = queued is not None and self._has_ended(queued)
        if queued is not None and not ended:
            with suppress(NoAnswer):  # look again at the next check
                if not submission.update(queued):
                    self.report_job_error(job_info, msg=failure(number, "HELD"))
                    return False
            if queued.state == "CANCELLED":  # `sacct` writes more, which the SLURM plugin ignores
                self.report_job_error(job_info, msg=failure(number, "CANCELLED"))
                return False
            return True
        if not submission.is_missing(self._seconds) or self._heartbeats.is_alive(number):
            return True
        event = "was forgotten by SLURM"
        if ended:
            event = "ended without SLURM's notice"
            with suppress(NoAnswer):  # otherwise the next run finds it in the queue
                ask("scancel", number)
        if self._heartbeats.has_succeeded(number):
            submission.say(f"{event}, but is complete")
            self.report_job_success(job_info)
        elif not self._submit_again(submission, event):
            self.report_job_error(job_info, msg=failure(number, "FORGOTTEN"))
        return False

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs of this run; `active_jobs` lacks those that are being checked.

        Waits for the calls of `sbatch` that are under way. Ctrl-C may also have ended such a call
        when SLURM had accepted the job already: its number is unknown, but not its name.
        """
        self._ending.set()  # from now on, nothing is submitted
        while self._submitting:
            time.sleep(0.1)
        try:
            ask("scancel", f"--name={self.run_uuid}")
        except NoAnswer as error:
            self._say(f"jobs of this run may continue: {error}")
        infos = [submission.info for submission in list(self._submissions.values())]
        super().cancel_jobs([info for info in infos if _is_elsewhere(info.job)])

    def shutdown(self) -> None:
        self._ending.set()
        super().shutdown()
        for line in self._failed.values():
            self._say(f"given up: {line}")
        if self._failed:
            self._say("the run is incomplete: the same command resumes it")
        self._failed.clear()


def _lock_of_run(folder: Path) -> IO[str]:
    """Lock the folder of this run; return the open lock file.

    Snakemake's own lock may be disabled (`--nolock`).

    Raises: WorkflowError that names the process of another run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "run").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        work = folder.parent.parent
        raise WorkflowError(f"{work}: another run submits jobs here: {lock.read()}") from None
    except OSError:  # the file system has no locks
        return lock
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {platform.node()}")
    lock.flush()
    return lock


def _task(job: Any) -> str:
    """Rule and wildcards of a job, for messages."""
    return " ".join([job.name, *([] if job.is_group() else map(str, job.wildcards))])


def _is_elsewhere(job: Any) -> bool:
    """Whether it runs on another cluster, where `squeue` and `scancel` do not find it by name."""
    return any(map(job.resources.get, ("cluster", "clusters", "slurm_cluster")))
