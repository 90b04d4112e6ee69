"""The executor: it extends the one of Snakemake's SLURM plugin by overriding its methods.

Snakemake and the SLURM plugin call these methods; each docstring says when. Names in this module:
a *job* is a job of Snakemake, a *SLURM job* is one submission of it, and a *start* is one execution
of a SLURM job, which SLURM may requeue and start again. The *task* of a job is what its starts know
of it, from a file that all of them share (`task.Task`).
"""

import asyncio
import os
import shlex
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
import snakemake_executor_plugin_slurm_jobstep as jobstep
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from snakemake_executor_plugin_slurm_patient import start
from snakemake_executor_plugin_slurm_patient.failures import explanation, failure
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
from snakemake_executor_plugin_slurm_patient.task import Task, file_of, has_ended, last_starts

SECONDS_BETWEEN_PINGS = 5  # while the controller does not answer


@dataclass
class ExecutorSettings(plugin.ExecutorSettings):
    """The settings of the SLURM plugin, and two more."""

    finished_suffix: str = field(
        default="",
        metadata={
            "help": "Ending of a file that the command of a rule writes beside each output when "
            "the output is whole, such as .done. A start of a job whose outputs all have such a "
            "file, newer than the job's submission, does nothing. Without it, a start does nothing "
            "if an earlier start of the job has succeeded."
        },
    )
    unnoticed_end_timeout: int = field(
        default=600,
        metadata={
            "help": "Seconds after which a job counts as failed whose start has ended, although "
            "SLURM shows the job as running. Must be longer than SLURM takes to notice a lost node "
            "(SlurmdTimeout, by default 300 seconds), whose jobs it requeues itself."
        },
    )


class Executor(plugin.Executor):
    """Submits jobs to SLURM and watches them; README.md lists the faults that it survives."""

    next_seconds_between_status_checks: int

    def __init__(self, workflow: Any, logger: Any) -> None:
        self.logger = logger
        if workflow.executor_settings.array_jobs:
            raise WorkflowError("slurm-patient submits no arrays of jobs: unset array-jobs")
        self._folder = Path(".snakemake", "slurm-patient").resolve()
        self._require_no_jobs_in(workflow.workdir_init)
        self._ending = threading.Event()
        self._submitting: list[Any] = []  # the job of each thread that may be calling `sbatch`
        self._controller_answered = True
        self._pinging = threading.Lock()  # otherwise an old answer may overtake a newer one
        self._submissions: dict[Any, Submission] = {}  # the last submission of each unfinished job
        # Jobs whose outputs were finished when SLURM reported a failure. They were submitted again.
        self._confirming: set[Any] = set()
        self._failed: dict[str, str] = {}  # why the last try of a job failed, by the job's name
        # The longest time between two checks, and how long a job must be missing from the queue to
        # count as forgotten. It is shorter than the time for which SLURM remembers jobs that have
        # ended (`MinJobAge`, usually five minutes).
        self._seconds = 3 * workflow.executor_settings.init_seconds_before_status_checks
        super().__init__(workflow, logger)

    def _say(self, line: str) -> None:
        """Print a line in Snakemake's log, as a warning so that `--quiet` does not hide it."""
        self.logger.warning(f"slurm-patient: {line}")

    # --- the command line of a job ------------------------------------------------------------

    def _shares_folder(self) -> bool:
        """Whether the jobs see the working folder and the software of this process."""
        shared = set(self.workflow.storage_settings.shared_fs_usage)
        return {SharedFSUsage.PERSISTENCE, SharedFSUsage.SOFTWARE_DEPLOYMENT} <= shared

    @property
    def cores(self) -> str:
        """The value of `--cores` for the Snakemake in a job: all cores of the job.

        The base class returns the number of cores of this host.
        """
        return "all" if self._shares_folder() else super().cores

    def get_job_exec_prefix(self, job: Any) -> str:
        """The text before the command in the batch script: it sets the variable `start.TASK`.

        The variable names the file of the task. This method also writes this file, because
        Snakemake calls it at each submission.
        """
        prefix: str = super().get_job_exec_prefix(job)
        if not self._shares_folder():
            return prefix
        task = Task(
            file_of(job, self._folder),
            run=self.run_uuid,
            outputs=[os.path.abspath(output) for output in job.output],
            finished_suffix=self.workflow.executor_settings.finished_suffix,
            step=None if job.resources.get("mpi") else _options_of_step(job),
        )
        task.write()
        export = f"export {start.TASK}={shlex.quote(str(task.file))}"
        return f"{prefix} && {export}" if prefix else export

    def get_python_executable(self) -> str:
        """The program of the batch script: `start.py` instead of Python alone.

        The SLURM plugin puts the arguments `-m snakemake ...` after it.
        """
        python: str = super().get_python_executable()
        if not self._shares_folder():
            return python
        return f"exec {python} {shlex.quote(str(Path(start.__file__).resolve()))}"

    def additional_general_args(self) -> str:
        """Further arguments of the Snakemake in a job: none, because `start.py` starts the step.

        Those of the SLURM plugin make the Snakemake in the batch script start the step.
        """
        return "" if self._shares_folder() else super().additional_general_args()

    # --- jobs of an earlier run ---------------------------------------------------------------

    def _require_no_jobs_in(self, folder: str) -> None:
        """Refuse to start while jobs of an earlier run may still work in the same folder.

        This first cancels two kinds of such jobs: those that SLURM itself holds, because nobody
        would release them, and those that have ended although SLURM shows them as running.

        Raises: WorkflowError that lists the jobs that remain, if any.
        """
        starts = last_starts(self._folder)
        jobs = [job for job in jobs_in(folder) if not self._cancel_if_left(job, starts)]
        if not jobs:
            return
        named = [f"{job.number} ({job.comment}, {job.user}, {job.state})" for job in jobs[:3]]
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        numbers = " ".join(job.number for job in jobs)
        raise WorkflowError(
            f"{folder}: SLURM jobs of another run work in this folder: {', '.join(named)}{more}. "
            f"Wait until they end (their files are kept) or cancel them: scancel {numbers}"
        )

    def _cancel_if_left(self, job: QueuedJob, starts: Mapping[str, Path]) -> bool:
        """Cancel a job of an earlier run if it is held by SLURM, or has ended unnoticed.

        Args:
            starts: the file of each task, by the name of its last start.

        Returns: whether the job was cancelled.
        """
        file = starts.get(_start(job))
        if job.reason in HELD_BY_SLURM:
            reason = f"was held ({job.reason})"
        elif file is not None and _has_ended(job, file):
            reason = "has ended without SLURM's notice"
        else:
            return False
        with suppress(NoAnswer):  # SLURM refuses if the job belongs to another user
            ask("scancel", job.number)
            self._say(f"cancelled SLURM job {job.number} of an earlier run, which {reason}")
            return True
        return False

    # --- submissions --------------------------------------------------------------------------

    def _controller_answers(self) -> bool:
        """Whether SLURM's controller answers now. Prints a line if the answer has changed.

        Any thread may call this.
        """
        with self._pinging:
            answers = controller_answers()
            if answers and not self._controller_answered:
                self._say("SLURM's controller answers again")
            elif self._controller_answered and not answers:
                self._say(
                    "SLURM's controller does not answer: waiting for it; running jobs continue"
                )
            self._controller_answered = answers
            return answers

    def run_job(self, job: Any) -> None:
        """Submit a job as soon as SLURM's controller answers. Snakemake calls this for each try.

        `sbatch` gives up after 10 seconds (SLURM's MessageTimeout). Without this wait, a job would
        spend all of its retries on failed submissions while the controller restarts.
        """
        self._failed.pop(_name(job), None)
        while not self._ending.is_set() and not self._controller_answers():
            self._ending.wait(SECONDS_BETWEEN_PINGS)
        # Before the next look at `_ending`: `cancel_jobs` first sets `_ending` and then waits until
        # this list is empty, so a job is either in the list or not submitted any more.
        self._submitting.append(job)
        try:
            if not self._ending.is_set():
                super().run_job(job)
        finally:
            self._submitting.remove(job)

    def report_job_submission(self, job_info: SubmittedJobInfo, *args: Any, **kwargs: Any) -> None:
        """Register a submission, and report an earlier job with the same number as forgotten.

        The SLURM plugin calls this after `sbatch`. A controller that crashed and lost its last
        seconds gives the numbers of the jobs that it has forgotten to new jobs.
        """
        number = str(job_info.external_jobid)
        for earlier in list(self._submissions.values()):
            if earlier.number == number:
                self.report_job_error(earlier.info, msg=failure(number, "FORGOTTEN"))
        submission = Submission(job_info, _name(job_info.job), self._say)
        self._submissions[job_info.job] = submission
        super().report_job_submission(job_info, *args, **kwargs)

    # --- the ends of jobs ---------------------------------------------------------------------

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        """Report the success of a job to Snakemake, and forget its submission."""
        self._submissions.pop(job_info.job, None)
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        """Report a failed try to Snakemake, which then removes the outputs of the job.

        If the outputs are finished, this submits the job once more instead: its start does nothing,
        and SLURM reports a success. This is the case when SLURM has forgotten a job after its end.
        """
        job = job_info.job
        msg = msg or ""
        self._submissions.pop(job, None)
        logs = [] if job.is_group() else [Path(path) for path in job.log]
        if job_info.aux:
            logs.append(job_info.aux["slurm_logfile"])
        line = f"{_name(job)}: {explanation(job_info.external_jobid, msg, logs)}"
        if job not in self._confirming and self._is_finished(job_info):
            self._confirming.add(job)
            self._say(f"{line}; its outputs are finished: submitting it again, to do nothing")
            self.run_job(job)
            return
        self._failed[_name(job)] = line  # before Snakemake may submit the job again
        super().report_job_error(job_info, msg=msg, **kwargs)
        self._say(line)

    def _is_finished(self, job_info: SubmittedJobInfo) -> bool:
        """Whether a job was submitted and a start of it has finished its outputs."""
        file = file_of(job_info.job, self._folder)
        return (
            job_info.external_jobid is not None
            and self._shares_folder()
            and file.exists()
            and Task.read(file).is_finished()
        )

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Yield the jobs that must be checked again, and report those that have ended.

        Snakemake calls this again and again. It waits while SLURM's controller does not answer. The
        SLURM plugin yields no job when its status queries fail; Snakemake would then never check
        these jobs again and wait for them forever. So this method yields all jobs whose end was not
        reported.
        """
        while active_jobs and not self._ending.is_set() and not self._controller_answers():
            await asyncio.sleep(SECONDS_BETWEEN_PINGS)
        # Without an answer of `squeue`, the SLURM plugin checks all jobs by its own query.
        with suppress(NoAnswer):
            queue = jobs_of(self.run_uuid) if active_jobs else {}
            active_jobs = [info for info in active_jobs if self._is_active(info, queue)]
        yielded = set()
        async for job_info in super().check_active_jobs(active_jobs):
            yielded.add(job_info.job)
            yield job_info
        for job_info in active_jobs:
            if self._is_submitted(job_info) and job_info.job not in yielded:
                yield job_info
        # The SLURM plugin makes this time longer at each check, up to minutes.
        self.next_seconds_between_status_checks = min(
            self.next_seconds_between_status_checks, self._seconds
        )

    def _is_submitted(self, job_info: SubmittedJobInfo) -> bool:
        """Whether this is the last submission of its job, and its end was not reported yet."""
        submission = self._submissions.get(job_info.job)
        return submission is not None and submission.info is job_info

    def _is_active(self, job_info: SubmittedJobInfo, queue: Mapping[str, QueuedJob]) -> bool:
        """Whether Snakemake must wait for a job.

        If not, the end of the job was reported before, or this reports its failure.

        Args:
            queue: the jobs of this run in SLURM's queue, by their number.
        """
        if not self._is_submitted(job_info):
            return False
        if _is_elsewhere(job_info.job):
            return True
        number = str(job_info.external_jobid)
        submission = self._submissions[job_info.job]
        queued = queue.get(number)
        state = ""
        if queued is None:
            if submission.is_missing(self._seconds):
                state = "FORGOTTEN"
        elif queued.state == "CANCELLED":  # `sacct` adds "by UID", which the SLURM plugin ignores
            state = "CANCELLED"
        elif _has_ended(queued, file_of(job_info.job, self._folder)):
            if submission.is_missing(self.workflow.executor_settings.unnoticed_end_timeout):
                state = "UNNOTICED"
                # Remove the job from SLURM's queue. If this fails, the next run cancels the job
                # (`_cancel_if_left`).
                with suppress(NoAnswer):
                    ask("scancel", number)
        else:
            with suppress(NoAnswer):  # without an answer, the next check looks again
                if not submission.update(queued):
                    state = "HELD"
        if state:
            self.report_job_error(job_info, msg=failure(number, state))
        return not state

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs of this run, when Snakemake is interrupted or gives up.

        This waits for the calls of `sbatch` that are under way. Ctrl-C may have ended such a call
        after SLURM had accepted the job, whose number is then unknown. So this cancels jobs by
        their name, which all jobs of a run share. `active_jobs` would not do, because it lacks the
        jobs that are being checked.
        """
        self._ending.set()  # from now on, nothing is submitted
        while self._submitting:
            time.sleep(0.1)
        try:
            ask("scancel", f"--name={self.run_uuid}")
        except NoAnswer as error:
            self._say(f"jobs of this run may continue: {error}")
        # Jobs on other clusters are left to the SLURM plugin, which cancels them by their number.
        infos = [submission.info for submission in list(self._submissions.values())]
        super().cancel_jobs([info for info in infos if _is_elsewhere(info.job)])

    def shutdown(self) -> None:
        """End the executor, and print once more why each job failed that was given up."""
        self._ending.set()
        super().shutdown()
        for line in self._failed.values():
            self._say(f"given up: {line}")
        if self._failed:
            self._say("the run is incomplete: the same command resumes it")
        self._failed.clear()


def _options_of_step(job: Any) -> list[str]:
    """The options of `srun` for a step of one task that has all resources of a job.

    They are those that Snakemake's executor plugin `slurm-jobstep` uses. An option is empty if the
    job does not request that resource.
    """
    options = [
        "-n1",
        "--cpu-bind=q",
        jobstep.get_cpu_setting(job, bool(job.resources.get("cpus_per_gpu"))),
        jobstep.get_gpu_setting(job),
        jobstep.get_node_setting(job),
    ]
    return [option for option in options if option]


def _start(job: QueuedJob) -> str:
    """The name of the present start of a job, as `Task.record_start` writes it."""
    return f"{job.number}.{job.restarts}"


def _has_ended(job: QueuedJob, file: Path) -> bool:
    """Whether the present start of a job has ended although SLURM shows it as running.

    Args:
        file: the file of the job's task.
    """
    return job.state == "RUNNING" and has_ended(file, _start(job))


def _name(job: Any) -> str:
    """The rule and the wildcards of a job, for messages; of a group of jobs, its name only."""
    words = [str(job.name)]
    if not job.is_group():
        words += map(str, job.wildcards)
    return " ".join(words)


def _is_elsewhere(job: Any) -> bool:
    """Whether a job runs on another cluster, where `squeue` and `scancel` do not find its name."""
    names = ("cluster", "clusters", "slurm_cluster")
    return any(job.resources.get(name) for name in names)
