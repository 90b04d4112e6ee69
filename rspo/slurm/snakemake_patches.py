"""Changes to private parts of Snakemake.

Each function here names an upstream issue and depends on names that may change in any release of
Snakemake. So pyproject.toml has one version. Before you change it, check for each function that the
problem still exists and that the private names in its docstring still mean the same, and run
`make test ARGS="-m slurm"`.
"""

import json
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from rspo.config.merge import parse_overrides
from rspo.core.errors import InputError
from rspo.core.provenance import inputs_of, read_provenance, was_made_again
from rspo.core.signals import REQUEST
from rspo.core.slurm_job import is_preempted, requeue
from rspo.core.step import Step


def read_config_like_set() -> None:
    """Let `--config` read what `rspo --set` reads.

    `training.steps=3` means `training='{steps: 3}'`; Snakemake ends with a traceback, before it
    reads the Snakefile. In `verl='{overrides: {...}}'` Snakemake reads every value as a string.
    Values of several lines, which Snakemake passes to its jobs in a form that they cannot read,
    become one line.

    Issue: https://github.com/snakemake/snakemake/issues/3907

    Private: `parse_config`, which maps the words after `--config` to values. Jobs get the same list
    of words.
    """
    from snakemake import cli
    from snakemake.exceptions import CliException

    def parse_config(entries: list[str] | None) -> dict[str, Any]:
        try:
            config = parse_overrides(entries or [], "--config")
        except InputError as error:
            raise CliException(str(error)) from None
        for index, entry in enumerate(entries or []):
            if entries and "\n" in entry:
                key, _, text = entry.partition("=")
                entries[index] = f"{key}={json.dumps(yaml.safe_load(text))}"
        return config

    cli.parse_config = parse_config


def plan_jobs_behind_ancient_inputs() -> None:
    """Plan a job also when the job of one of its `ancient` inputs runs.

    When Snakemake plans a job, it does not look for reasons to run the jobs that depend on it,
    because their input changes anyway. An `ancient` input does not count as changed, however. After
    a kill, a run could end successfully without its target, and changed settings of a cell could go
    unnoticed.

    Issue: https://github.com/snakemake/snakemake/issues/4166

    Private: `DAG.update_needrun` calls `DAG.bfs` only to collect the jobs that it does not look at.
    """
    from snakemake.dag import DAG

    update_needrun = DAG.update_needrun

    async def look_at_all_jobs(dag: DAG, *args: Any, **kwargs: Any) -> None:
        dag.bfs = lambda *jobs: ()
        try:
            await update_needrun(dag, *args, **kwargs)
        finally:
            del dag.bfs

    DAG.update_needrun = look_at_all_jobs


def keep_one_timer() -> None:
    """Keep one timer that makes the scheduler look for jobs to start.

    While jobs wait, Snakemake starts a timer at every look, and each timer ends with a look. So
    every job that ends adds a look per second and a thread: after 100 jobs, half of a core is busy.
    With one timer, a look may come one period later.

    Issue: https://github.com/snakemake/snakemake/issues/3804

    Private: `JobScheduler._schedule_reevalutation` starts a timer of some seconds.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    start_timer = JobScheduler._schedule_reevalutation
    next_look = 0.0

    def start_if_none_waits(scheduler: JobScheduler, seconds: float) -> None:
        nonlocal next_look
        if (now := time.monotonic()) >= next_look:
            next_look = now + seconds
            start_timer(scheduler, seconds)

    JobScheduler._schedule_reevalutation = start_if_none_waits


def forward_stop_requests() -> None:
    """Inside a SLURM job, send every request to stop on to the processes that this one started.

    Where SLURM tracks processes by cgroups, it signals only the first process of a job step, which
    is Snakemake. Elsewhere it signals all of them, and they receive the request twice.
    """
    signal.signal(REQUEST, lambda number, frame: _request_stop())
    _requeue_when_preempted()


def _request_stop() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(REQUEST)


def _requeue_when_preempted() -> None:
    """Turn the SIGTERM that starts a grace time into a request to stop.

    On SIGTERM, Snakemake waits for its jobs and then exits with 1 even if they succeed: SLURM would
    record a failure. A command that cannot requeue its SLURM job itself, such as a shell that the
    same SIGTERM killed, has it requeued here.

    Issue: https://github.com/snakemake/snakemake/issues/3241

    Private: `JobScheduler.exit_gracefully`, the handler of SIGTERM, and `JobScheduler.schedule`,
    which returns whether all jobs succeeded.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    exit_gracefully, schedule = JobScheduler.exit_gracefully, JobScheduler.schedule
    preempted: list[bool] = []

    def stop_or_exit(scheduler: JobScheduler, *signal_and_frame: object) -> None:
        if is_preempted():
            preempted.append(True)
            _request_stop()
        elif not preempted:  # otherwise `requeue` itself causes this SIGTERM
            exit_gracefully(scheduler, *signal_and_frame)

    def schedule_or_requeue(scheduler: JobScheduler) -> bool:
        success: bool = schedule(scheduler)
        if preempted and not success and is_preempted():
            print(f"rspo: {requeue()}", file=sys.stderr, flush=True)
        return success

    JobScheduler.exit_gracefully, JobScheduler.schedule = stop_or_exit, schedule_or_requeue


def step_of(job: Any) -> Step | None:
    """The step whose settings a job has as the parameter `settings`."""
    return getattr(job.params.get("settings"), "step", None)


def compare_settings_with_provenance() -> None:
    """Let Snakemake look up in its provenance what an existing result is.

    Snakemake's own records know nothing of results that a command of `rspo` made, that were copied,
    or that a SLURM job finished after its Snakemake was killed: a later change of a setting would
    go unnoticed, or a current result be made again. So `--touch` and `--cleanup-metadata` have no
    effect on settings. Nor does Snakemake make a missing input again if the result exists; here it
    does if the result was made from an earlier version of the input, such as of a policy that was
    trained again, and whose next training was interrupted.

    Snakemake marks the outputs of a job until it has seen the job end. If it is killed or
    interrupted before, it takes them for incomplete and removes them; here it does not if their
    provenance says that they are whole. With `keep-incomplete`, it removes the mark also when the
    job fails; here the mark stays until they are whole.

    Issue: https://github.com/snakemake/snakemake/issues/2210

    Private: `DAG.update_needrun` asks `has_metadata` whether there are records of a job's outputs,
    and `params_changed` which outputs have other parameters. `DAG.check_incomplete` asks
    `incomplete` which outputs have a mark, and `Job.postprocess` calls `finished` to remove it.
    """
    from snakemake.persistence import ParamsChange, PersistenceBase

    has_metadata, params_changed = PersistenceBase.has_metadata, PersistenceBase.params_changed
    incomplete, finished = PersistenceBase.incomplete, PersistenceBase.finished

    def has_settings(persistence: PersistenceBase, job: Any) -> bool:
        return job.params.get("settings") is not None or has_metadata(persistence, job)

    def settings_changed(persistence: PersistenceBase, job: Any, file: Any = None) -> Any:
        current = job.params.get("settings")
        made = job.output if current else []
        notes = {path: read_provenance(Path(path)) for path in made}
        known = {path: note.get("settings_hash") for path, note in notes.items()}
        if not any(known.values()):
            return params_changed(persistence, job, file)
        old = {path: hash_ for path, hash_ in known.items() if hash_ not in (None, current)}
        missing = {Path(path) for path in job.input if not Path(path).exists()}
        for path, note in notes.items():
            then = inputs_of(Path(path), note) if missing else {}
            if any(was_made_again(source, then[source]) for source in missing & then.keys()):
                old[path] = "an earlier version of a missing input"
        return ParamsChange(set(old.values()), {current} if old else set(), set(old))

    async def incomplete_outputs(persistence: PersistenceBase, job: Any) -> Any:
        found = await incomplete(persistence, job)
        step = step_of(job) if found else None
        return [] if step and step.is_made() and not step.is_begun() else found

    async def finished_if_made(persistence: PersistenceBase, job: Any) -> None:
        step = step_of(job)
        if step is None or step.is_made():
            await finished(persistence, job)

    PersistenceBase.has_metadata = has_settings
    PersistenceBase.params_changed = settings_changed
    PersistenceBase.incomplete = incomplete_outputs
    PersistenceBase.finished = finished_if_made
