"""Changes to private parts of Snakemake, and what the workflow reads of them.

Each function here names an upstream issue and depends on names that may change in any release of
Snakemake. So pyproject.toml has one version. Before you change it, check for each function that the
problem still exists and that the private names in its docstring still mean the same, and run
`make test ARGS="-m slurm"`.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.common.configfile import load_configfile
from snakemake_interface_executor_plugins.utils import encode_as_base64, maybe_base64

from rspo.config.given import OWN_KEYS, overrides_of
from rspo.config.merge import merge
from rspo.core.errors import InputError
from rspo.pipeline.state import Reason, has_settings_hash, is_begun, recorded_staleness, state
from rspo.pipeline.task import Task


def config_as_typed(workflow: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config keys of a workflow, with the text of `--config set=TEXT` as it was typed.

    The overrides of the command line are merged with those of config files, and win; Snakemake
    would replace the whole text of another `set`.

    Snakemake removes quotes at both ends of the text, and reads one such as `training={steps: 3}`
    as a mapping, whose values are text. It gives the words after `--config` to its jobs in quotes
    that change a word with both kinds of quotes, `$` or several lines; so jobs get it encoded.

    Issue: https://github.com/snakemake/snakemake/issues/2374

    Private: `workflow.config_settings`, where `config` has what Snakemake read from `--config`, and
    `config_args` the words, which its jobs get too.

    Raises:
        InputError: for a mapping in any other key, because Snakemake reads the numbers in it as
            text.
    """
    settings = workflow.config_settings
    of_command_line = [key for key in config if config[key] == settings.config.get(key)]
    for key in of_command_line:
        if key != "set" and isinstance(config[key], Mapping):
            raise InputError(
                f"--config {key}={config[key]}: Snakemake reads the values of a mapping as text; "
                f"give it as set=\"{key}='{{...}}'\""
            )
    if "set" not in of_command_line:  # but of a file, or of a module's `config`
        return dict(config)
    texts = []
    words = []
    for word in settings.config_args:
        if word.startswith("set="):
            text = maybe_base64(str)(word.removeprefix("set="))
            texts.append(text)
            word = f"set={encode_as_base64(text)}"
        words.append(word)
    settings.config_args = words
    typed = {key: config[key] for key in of_command_line} | {"set": " ".join(texts)}
    of_files = {key: config[key] for key in config if key not in of_command_line}
    for file in settings.configfiles:
        of_file = load_configfile(file)
        if "set" in of_file:
            of_files["set"] = of_file["set"]
    own = {key: config[key] for key in config if key in OWN_KEYS and key != "set"}
    return own | merge(overrides_of(of_files), overrides_of(typed))


def always_run(workflow: Any, event: str, block: Callable[[], None]) -> None:
    """Run the `onstart` or `onsuccess` of this workflow also if it is a module of a Snakefile.

    Snakemake runs one `onstart` and one `onsuccess`, the last of the main Snakefile. Those of a
    module run only if the main Snakefile calls them: results would be made without the checks at
    the start and at the end. This changes the one `workflow`, not Snakemake.

    Documented: https://github.com/snakemake/snakemake/pull/4050

    Private: `workflow.onstart` registers an `onstart` as `workflow._onstart`, which is called with
    a log file; so does `workflow.onsuccess`.

    Args:
        event: "onstart" or "onsuccess".
        block: the global variable of this name of the Snakefile that has it.
    """
    register = getattr(workflow, event)

    def add_block() -> None:
        others = getattr(workflow, f"_{event}")

        def run_all(log: Any) -> None:
            block()
            others(log)

        setattr(workflow, f"_{event}", run_all)

    def register_and_add(other: Callable[[Any], None]) -> None:
        register(other)
        if workflow.modifier.is_main_snakefile():  # it has replaced what was registered before
            add_block()

    if not workflow.modifier.is_main_snakefile():
        add_block()
    setattr(workflow, event, register_and_add)


@cache
def plan_jobs_behind_ancient_inputs() -> None:
    """Plan a job also when the job of one of its `ancient` inputs runs.

    When Snakemake plans a job, it does not look for reasons to run the jobs that depend on it,
    because their input changes anyway. An `ancient` input does not count as changed, however. After
    a kill, a run could end successfully without its target, and changed settings of a cell could go
    unnoticed.

    Issue: https://github.com/snakemake/snakemake/issues/4166, and
    docs/upstream/snakemake_ancient_inputs.md

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


@cache
def keep_one_timer() -> None:
    """Keep one timer of each delay that makes the scheduler look for jobs to start.

    While jobs wait, Snakemake starts a timer at every look, and each timer ends with a look. So
    every job that ends adds a look per second and a thread: after 100 jobs, half of a core is busy.
    With one timer, a look may come one period later.

    Issue: https://github.com/snakemake/snakemake/issues/3804, and docs/upstream/snakemake_timer.md

    Private: `JobScheduler._schedule_reevalutation` starts a timer of some seconds.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    start_timer = JobScheduler._schedule_reevalutation
    next_looks: dict[float, float] = {}  # by delay, because one for queue input is longer

    def start_if_none_waits(scheduler: JobScheduler, seconds: float) -> None:
        now = time.monotonic()
        if now >= next_looks.get(seconds, 0.0):
            next_looks[seconds] = now + seconds
            start_timer(scheduler, seconds)

    JobScheduler._schedule_reevalutation = start_if_none_waits


def task_of(job: Any) -> Task | None:
    """The task whose settings a job has as the parameter `settings`."""
    return getattr(job.params.get("settings"), "task", None)


@cache
def compare_results_with_provenance() -> None:
    """Let Snakemake ask `rspo.pipeline.state` what an existing result is.

    Snakemake's own records know nothing of results that a command of `rspo` made, that were copied,
    or that a SLURM job finished after its Snakemake was killed: a later change of a setting would
    go unnoticed, or a current result be made again. So `--touch` and `--cleanup-metadata` have no
    effect on settings, or on the versions of inputs. Nor does Snakemake notice that a result was
    made from another version of an input, if that one is older than the result or missing, such as
    a policy that was restored from a backup, or one that was trained again and whose next training
    was interrupted.

    This acts on stale results only. Snakemake does not make damaged results again, nor those of
    somebody else; the check of the plan reports them.

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

    has_metadata = PersistenceBase.has_metadata
    params_changed = PersistenceBase.params_changed
    incomplete = PersistenceBase.incomplete
    finished = PersistenceBase.finished

    def has_settings(persistence: PersistenceBase, job: Any) -> bool:
        return job.params.get("settings") is not None or has_metadata(persistence, job)

    def settings_changed(persistence: PersistenceBase, job: Any, file: Any = None) -> Any:
        settings_hash = job.params.get("settings")
        if settings_hash is None or not any(has_settings_hash(Path(path)) for path in job.output):
            return params_changed(persistence, job, file)
        inputs = [Path(path) for path in job.input]
        stale = {}
        for path in job.output:
            staleness = recorded_staleness(Path(path), settings_hash, inputs)
            if staleness is not None and staleness.reason is Reason.OTHER_VERSION:
                stale[path] = f"another version of {staleness.detail}"
            elif staleness is not None:
                stale[path] = staleness.detail
        return ParamsChange(set(stale.values()), {settings_hash} if stale else set(), set(stale))

    async def incomplete_outputs(persistence: PersistenceBase, job: Any) -> Any:
        marked = await incomplete(persistence, job)
        task = task_of(job) if marked else None
        if task is not None and state(task).is_current and not is_begun(task):
            return []
        return marked

    async def finished_if_made(persistence: PersistenceBase, job: Any) -> None:
        task = task_of(job)
        if task is None or state(task).is_current:
            await finished(persistence, job)

    PersistenceBase.has_metadata = has_settings
    PersistenceBase.params_changed = settings_changed
    PersistenceBase.incomplete = incomplete_outputs
    PersistenceBase.finished = finished_if_made
