"""The executor behind `executor: slurm`: Snakemake's SLURM plugin, with these additions.

- It starts only in a folder in which no other run has jobs, and only if `rspo doctor` finds nothing
  that is certain to stop a job.
- It does not submit a job whose model and problems do not fit (`rspo.slurm.data_checks`).
- While SLURM's controller does not answer, it waits. It neither fails jobs nor loses track of them.
- It releases jobs that SLURM itself holds (`rspo.slurm.submission`).
- It submits a job again that SLURM forgot, whose end SLURM did not notice, or whose command SLURM
  did not start.
- When it is interrupted, it also cancels a job whose submission is under way.
- It prints one line for each of these, and for each job that failed or was requeued.
- It understands how `sacct` writes a cancelled job (`rspo.slurm.snakemake_patches`).

All of it overrides methods of Snakemake's executor interface. `install` registers this class under
the plugin's name, so that the plugin's settings and documentation apply unchanged. A plugin with a
name of its own would need settings of its own.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from rspo.core.errors import InputError
from rspo.core.locks import is_file_locked, is_locked
from rspo.evaluation.journal import journal_of
from rspo.slurm.cluster import Slurm
from rspo.slurm.data_checks import PromptCheck
from rspo.slurm.job_ends import forget_starts
from rspo.slurm.messages import (
    Controller,
    FailureLines,
    failure,
    say,
    state_of,
    step_error,
    task_name,
)
from rspo.slurm.preflight import run_doctor
from rspo.slurm.queue import QueuedJob, jobs_of, require_no_jobs_in
from rspo.slurm.snakemake_patches import is_complete, normalize_states_of_sacct
from rspo.slurm.submission import Submission

# How long a job that is ready waits for SLURM's controller before it is submitted anyway.
SECONDS_TO_WAIT = 1800
SECONDS_BETWEEN_PINGS = 5
# How long accounting (`sacct`) may take to show a job that ended.
SECONDS_OF_ACCOUNTING = 3600
# How often a job is submitted again because SLURM forgot it or did not start its command. These
# submissions are not among Snakemake's `retries`.
RESUBMISSIONS = 5
# Resources of jobs on another cluster, which `squeue` and `scancel` do not find by name.
_OTHER_CLUSTER = ("cluster", "clusters", "slurm_cluster")


class Executor(plugin.Executor):
    next_seconds_between_status_checks: int
    logs = Path("logs")  # folder of the rules' logs; `install` sets all three
    options: Sequence[str] = ()  # of the `rspo` command, which select the experiment
    prompts: PromptCheck

    def __init__(self, workflow: Any, logger: Any) -> None:
        try:
            require_no_jobs_in(Path.cwd())
            run_doctor(workflow, self.options)
        except InputError as error:
            raise WorkflowError(str(error)) from None
        self._ending = threading.Event()
        self._submitting: list[Any] = []  # a job for each thread that may be calling `sbatch`
        self._controller = Controller()
        self._submissions: dict[Any, Submission] = {}  # the last one of each unfinished job
        self._owners: dict[str, Any] = {}  # by number of a SLURM job: the last job that got it
        self._resubmissions: Counter[Any] = Counter()  # by job
        # A minute with the shipped profile, which is shorter than SLURM remembers ended jobs.
        self._seconds = 3 * workflow.executor_settings.init_seconds_before_status_checks
        super().__init__(workflow, logger)
        logger.addHandler(FailureLines(self.logs))

    def run_job(self, job: Any) -> None:
        """Submit a job as soon as SLURM's controller answers.

        `sbatch` gives up after 10 seconds (SLURM's MessageTimeout). While a controller restarts,
        a job would spend all of its retries on failed submissions. A job whose data do not fit is
        reported as failed instead.
        """
        try:
            problem = self.prompts.problem_of(job)
        except Exception as error:  # in a thread of the plugin, where nobody would see it
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self.report_job_error(SubmittedJobInfo(job), msg=problem)
            return
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while not self._ending.is_set() and not self._controller.answers():
            if time.monotonic() > deadline:
                break
            self._ending.wait(SECONDS_BETWEEN_PINGS)
        self._submitting.append(job)  # before it reads `_ending`, as `cancel_jobs` relies on it
        try:
            if not self._ending.is_set():
                super().run_job(job)
        finally:
            self._submitting.remove(job)

    def report_job_submission(self, job_info: SubmittedJobInfo, *args: Any, **kwargs: Any) -> None:
        job = job_info.job
        logs = [] if job.is_group() else [Path(log) for log in job.log]
        task = task_name(job.name, logs, self.logs)
        self._submissions[job] = Submission(job_info, task, say)
        # A controller that lost its last seconds gives the numbers of forgotten jobs to new ones.
        self._owners[str(job_info.external_jobid)] = job
        forget_starts(str(job_info.external_jobid))
        super().report_job_submission(job_info, *args, **kwargs)

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self._submissions.pop(job_info.job, None)
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        submission = self._submissions.pop(job_info.job, None)
        if submission and job_info.aux and state_of(msg or "") == "FAILED":
            error = step_error(job_info.aux["slurm_logfile"])
            if error and self._submit_again(submission, f"was not started ({error})"):
                return
        super().report_job_error(job_info, msg=msg, **kwargs)

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

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Yield the jobs that still run; wait while SLURM's controller does not answer.

        The plugin yields no job when its status queries fail, and Snakemake would then wait for
        these jobs forever without checking them again. They are yielded here.
        """
        while active_jobs and not self._ending.is_set() and not self._controller.answers():
            await asyncio.sleep(SECONDS_BETWEEN_PINGS)
        if active_jobs and (queue := self._queue()) is not None:
            active_jobs = [info for info in active_jobs if self._is_active(info, queue)]
        # The plugin would take the state of another job with the same number.
        checked = [info for info in active_jobs if self._owner(info) is info.job]
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

    def _queue(self) -> dict[str, QueuedJob] | None:
        """The jobs of the run that SLURM remembers, also ended ones; None if it does not answer."""
        try:
            return {job.number: job for job in jobs_of(self.run_uuid)}
        except InputError:
            return None

    def _owner(self, job_info: SubmittedJobInfo) -> Any:
        return self._owners.get(str(job_info.external_jobid))

    def _is_active(self, job_info: SubmittedJobInfo, queue: Mapping[str, QueuedJob]) -> bool:
        """Whether Snakemake must wait for a job; if not, its end is reported or it is submitted."""
        job, number = job_info.job, str(job_info.external_jobid)
        submission = self._submissions[job]
        # `squeue` writes another number for a task of an array than the plugin.
        if _is_elsewhere(job) or "_" in number:
            return True
        listed = self._owner(job_info) is job and number in queue
        ended = listed and queue[number].has_ended
        if listed and not ended:
            with suppress(InputError):  # SLURM did not answer; look again at the next check
                if not submission.update(queue[number]):
                    self.report_job_error(job_info, msg=failure(number, "HELD"))
                    return False
            return True
        # With `sacct`, SLURM may drop an ended job from its queue before accounting has its state.
        by_squeue = self.get_status_command() == "squeue"
        seconds = self._seconds if by_squeue else SECONDS_OF_ACCOUNTING
        if not submission.is_missing(time.monotonic(), seconds) or _is_running(job):
            return True
        event = "was forgotten by SLURM"
        if ended:
            event = "ended without SLURM's notice"
            with suppress(InputError):  # otherwise the next run finds it in the queue
                Slurm().ask("scancel", number)
        if is_complete(self.workflow, job):
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
        while self._submitting:
            time.sleep(0.1)
        try:
            Slurm().ask("scancel", f"--name={self.run_uuid}")
        except InputError as error:
            say(f"jobs of this run may continue: {error}")
        infos = [submission.info for submission in list(self._submissions.values())]
        super().cancel_jobs([info for info in infos if _is_elsewhere(info.job)])

    def cancel(self) -> None:
        self._ending.set()  # from now on, nothing is submitted
        super().cancel()

    def shutdown(self) -> None:
        self._ending.set()
        super().shutdown()


def _is_elsewhere(job: Any) -> bool:
    return any(map(job.resources.get, _OTHER_CLUSTER))


def _is_running(job: Any) -> bool:
    """Whether a process holds the lock of an output's folder or journal."""
    jobs = job.jobs if job.is_group() else [job]
    paths = [Path(output) for member in jobs for output in member.output]
    return any(is_locked(path.parent) or is_file_locked(journal_of(path)) for path in paths)


def install(logs: Path, options: Sequence[str], prompts: PromptCheck) -> None:
    """Make Snakemake use `Executor` wherever `executor: slurm` is requested.

    Args:
        logs: folder of the rules' logs; the path of a log below it names the task.
        options: of the `rspo` command, which select the experiment.
    """
    Executor.logs, Executor.options, Executor.prompts = logs, options, prompts
    ExecutorPluginRegistry().get_plugin("slurm").executor = Executor
    normalize_states_of_sacct()
