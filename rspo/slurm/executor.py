"""The executor behind `executor: slurm`: Snakemake's SLURM plugin, with these additions.

- It starts only in a folder in which no other run has jobs, and only if `rspo doctor` finds nothing
  that is certain to stop a job.
- It does not submit a job whose model and problems do not fit (`rspo.slurm.data_checks`).
- While SLURM's controller does not answer, it waits. It neither fails jobs nor loses track of them.
- It prints one line for each job that failed, was requeued, or was forgotten by SLURM.
- It understands how `sacct` writes a cancelled job (`rspo.slurm.snakemake_patches`).

All of it overrides methods of Snakemake's executor interface. `install` registers this class under
the plugin's name, so that the plugin's settings and documentation apply unchanged. A plugin with a
name of its own would need settings of its own.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from rspo.core.errors import InputError
from rspo.slurm.data_checks import PromptCheck
from rspo.slurm.messages import Controller, FailureLines, watch_queue
from rspo.slurm.preflight import run_doctor
from rspo.slurm.queue import require_no_jobs_in
from rspo.slurm.snakemake_patches import normalize_states_of_sacct

# How long a job that is ready waits for SLURM's controller before it is submitted anyway.
SECONDS_TO_WAIT = 1800
SECONDS_BETWEEN_PINGS = 5


class Executor(plugin.Executor):
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
        self._controller = Controller()
        self._unfinished: set[str] = set()  # numbers of submitted SLURM jobs
        super().__init__(workflow, logger)
        logger.addHandler(FailureLines(self.logs))
        # Once a minute with the shipped profile, which is shorter than SLURM remembers ended jobs.
        seconds = 3 * workflow.executor_settings.init_seconds_before_status_checks
        watch_queue(self.run_uuid, self._unfinished.copy, self._controller, seconds)

    def run_job(self, job: Any) -> None:
        """Submit a job as soon as SLURM's controller answers.

        `sbatch` gives up after 10 seconds (SLURM's MessageTimeout). While a controller restarts,
        a job would spend all of its retries on failed submissions. A job whose data do not fit is
        reported as failed instead.
        """
        if problem := self.prompts.problem_of(job):
            self.report_job_error(SubmittedJobInfo(job), msg=problem)
            return
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while not self._ending.is_set() and not self._controller.answers():
            if time.monotonic() > deadline:
                break
            self._ending.wait(SECONDS_BETWEEN_PINGS)
        if not self._ending.is_set():
            super().run_job(job)

    def report_job_submission(self, job_info: SubmittedJobInfo, *args: Any, **kwargs: Any) -> None:
        self._unfinished.add(str(job_info.external_jobid))
        super().report_job_submission(job_info, *args, **kwargs)

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self._unfinished.discard(str(job_info.external_jobid))
        super().report_job_success(job_info)

    def report_job_error(self, job_info: SubmittedJobInfo, *args: Any, **kwargs: Any) -> None:
        self._unfinished.discard(str(job_info.external_jobid))
        super().report_job_error(job_info, *args, **kwargs)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Yield the jobs that still run; wait while SLURM's controller does not answer.

        The plugin yields no job when its status queries fail, and Snakemake would then wait for
        these jobs forever without checking them again. They are yielded here.
        """
        while active_jobs and not self._ending.is_set() and not self._controller.answers():
            await asyncio.sleep(SECONDS_BETWEEN_PINGS)
        yielded = set()
        async for job_info in super().check_active_jobs(active_jobs):
            yielded.add(str(job_info.external_jobid))
            yield job_info
        for job_info in active_jobs:
            number = str(job_info.external_jobid)
            if number not in yielded and number in self._unfinished:
                yield job_info

    def cancel(self) -> None:
        self._ending.set()
        super().cancel()

    def shutdown(self) -> None:
        self._ending.set()
        super().shutdown()


def install(logs: Path, options: Sequence[str], prompts: PromptCheck) -> None:
    """Make Snakemake use `Executor` wherever `executor: slurm` is requested.

    Args:
        logs: folder of the rules' logs; the path of a log below it names the task.
        options: of the `rspo` command, which select the experiment.
    """
    Executor.logs, Executor.options, Executor.prompts = logs, options, prompts
    ExecutorPluginRegistry().get_plugin("slurm").executor = Executor
    normalize_states_of_sacct()
