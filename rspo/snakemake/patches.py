"""Changes to private parts of Snakemake, and what the workflow reads from private parts.

Each function that changes Snakemake names an upstream issue. It depends on names that may change in
any release of Snakemake, so pyproject.toml allows one version only. Before you change that version,
check for each function that the problem still exists and that the private names in its docstring
still mean the same, and run `make test ARGS="-m slurm"`.
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
from rspo.pipeline.state import (
    Reason,
    State,
    has_settings_hash,
    is_begun,
    recorded_staleness,
    state,
)
from rspo.pipeline.task import Task


def config_as_typed(workflow: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config keys of a workflow, with the text of `--config set=TEXT` as it was typed.

    The overrides of the command line are merged with those of config files and take precedence.
    Snakemake alone would replace the whole text of `set` in a config file.

    Snakemake removes quotes at both ends of the text, and reads a text such as
    `training={steps: 3}` as a mapping whose values are text. When it passes the words after
    `--config` to its jobs, it puts them in quotes, which changes a word that contains both kinds of
    quotes, `$` or several lines. So this function encodes the word for the jobs.

    Issue: https://github.com/snakemake/snakemake/issues/2374

    Private: `workflow.config_settings`. Its `config` has the values that Snakemake read from
    `--config`, and its `config_args` the words themselves, which Snakemake passes to its jobs.

    Args:
        config: the global variable `config` of the Snakefile.

    Raises:
        InputError: for a mapping in a key other than `set`, because Snakemake reads the numbers in
            it as text.
    """
    settings = workflow.config_settings
    # `config` may be that of a module, in which not all keys come from the command line.
    of_command_line = [key for key in config if config[key] == settings.config.get(key)]
    for key in of_command_line:
        if key != "set" and isinstance(config[key], Mapping):
            raise InputError(
                f"--config {key}={config[key]}: Snakemake reads the values of a mapping as text; "
                f"give it as set=\"{key}='{{...}}'\""
            )
    if "set" not in of_command_line:  # a config file or a module's `config` has it, if any
        return dict(config)
    # The text as it was typed, which a job gets encoded by the Snakemake that started it.
    texts = []
    words = []
    for word in settings.config_args:
        if word.startswith("set="):
            text = maybe_base64(str)(word.removeprefix("set="))
            texts.append(text)
            word = f"set={encode_as_base64(text)}"
        words.append(word)
    settings.config_args = words
    # `config` no longer has the `set` of a config file, so the files are read again.
    typed = {key: config[key] for key in of_command_line} | {"set": " ".join(texts)}
    of_files = {key: config[key] for key in config if key not in of_command_line}
    for file in settings.configfiles:
        of_file = load_configfile(file)
        if "set" in of_file:
            of_files["set"] = of_file["set"]
    own = {key: config[key] for key in config if key in OWN_KEYS and key != "set"}
    return own | merge(overrides_of(of_files), overrides_of(typed))


def sources_of(workflow: Any) -> dict[str, dict[str, Any]]:
    """Where the overrides of a workflow come from: each config file, and the command line.

    Call it after `config_as_typed`. Keys that a Snakefile gives to a module have no source here.

    Private: `workflow.config_settings`, as in `config_as_typed`.
    """
    settings = workflow.config_settings
    sources = {}
    for file in settings.configfiles:
        sources[f"--configfile {file}"] = overrides_of(load_configfile(file))
    typed = {key: value for key, value in settings.config.items() if key != "set"}
    texts = []
    for word in settings.config_args:
        if word.startswith("set="):
            texts.append(maybe_base64(str)(word.removeprefix("set=")))
    if texts:
        typed["set"] = " ".join(texts)
    sources["--config"] = overrides_of(typed)
    return sources


def file_of_rules(workflow: Any) -> Path | None:
    """The file of rules that Snakemake reads now; None if it is on a server.

    Private: `workflow.included_stack` has the files that Snakemake is reading, the innermost last.
    """
    file = Path(workflow.included_stack[-1].get_path_or_uri(secret_free=True))
    return file if file.is_file() else None


def always_run(workflow: Any, event: str, block: Callable[[], None]) -> None:
    """Run the `onstart` or `onsuccess` of this workflow also if it is a module of a Snakefile.

    Snakemake runs one `onstart` and one `onsuccess`, which are the last in the main Snakefile. It
    ignores the blocks of a module unless the main Snakefile calls them, so results could be made
    without the checks at the start and at the end. This function changes the object `workflow`, not
    Snakemake.

    Documented: https://github.com/snakemake/snakemake/pull/4050

    Private: `workflow.onstart` registers a block by setting `workflow._onstart`, which Snakemake
    calls with a log file. `workflow.onsuccess` and `workflow._onsuccess` work in the same way.

    Args:
        event: "onstart" or "onsuccess".
        block: the global variable of this name in the Snakefile that defines the block.
    """
    register = getattr(workflow, event)

    # Put the block in front of what is registered now, which other modules may have added.
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
    """Look for reasons to run a job even if the job that makes one of its inputs runs.

    When Snakemake plans a job, it does not look for reasons to run the jobs that depend on it,
    because a changed input is reason enough. An `ancient` input, however, does not count as
    changed. Without this patch, a run after a kill could end successfully without its target, and
    changed settings of a cell could go unnoticed.

    Issue: https://github.com/snakemake/snakemake/issues/4166, and
    docs/upstream/snakemake_ancient_inputs.md

    Private: `DAG.update_needrun` calls `DAG.bfs` only to collect the jobs that it does not look at,
    so a `bfs` that finds no jobs makes it look at all of them.
    """
    from snakemake.dag import DAG

    update_needrun = DAG.update_needrun

    # An attribute of the object hides the method of its class until it is deleted.
    async def look_at_all_jobs(dag: DAG, *args: Any, **kwargs: Any) -> None:
        dag.bfs = lambda *jobs: ()
        try:
            await update_needrun(dag, *args, **kwargs)
        finally:
            del dag.bfs

    DAG.update_needrun = look_at_all_jobs


@cache
def keep_one_timer() -> None:
    """Keep the scheduler from running more than one timer for each delay.

    While jobs wait, Snakemake starts a timer whenever it looks for jobs to start, and looks again
    when the timer ends. It also looks when a job ends, which starts one more chain of timers: one
    more thread, and one more look per second. After 100 jobs, half of a core is busy. With one
    timer per delay, a look may come one period later.

    Issue: https://github.com/snakemake/snakemake/issues/3804, and docs/upstream/snakemake_timer.md

    Private: `JobScheduler._schedule_reevalutation` starts a timer, whose delay is in seconds.
    """
    from snakemake.scheduling.job_scheduler import JobScheduler

    start_timer = JobScheduler._schedule_reevalutation
    # When the timer of each delay ends. The delay is longer if inputs come from a queue.
    next_looks: dict[float, float] = {}

    def start_if_none_waits(scheduler: JobScheduler, seconds: float) -> None:
        now = time.monotonic()
        if now >= next_looks.get(seconds, 0.0):
            next_looks[seconds] = now + seconds
            start_timer(scheduler, seconds)

    JobScheduler._schedule_reevalutation = start_if_none_waits


def task_of(job: Any) -> Task | None:
    """The task of a job, which its parameter `settings` holds; None for a rule of the user."""
    return getattr(job.params.get("settings"), "task", None)


def _old_value(staleness: State) -> str:
    """What `--reason` prints as the old value of the parameter `settings` of a stale result."""
    if staleness.reason is Reason.OTHER_VERSION:
        return f"another version of {staleness.detail}"
    if staleness.reason is Reason.NEW_INPUT:
        return f"without {staleness.detail}"
    return staleness.detail


@cache
def compare_results_with_provenance() -> None:
    """Let Snakemake ask `rspo.pipeline.state` whether an existing result is stale or incomplete.

    Stale: Snakemake's own records do not cover results that the user made with an `rspo` command or
    copied, or that a SLURM job finished after its Snakemake was killed. A later change of a setting
    would go unnoticed, or Snakemake would make a current result again. Snakemake compares results
    with inputs by time only. It does not notice that a result was made from another version of an
    input if this input is older than the result, such as a policy restored from a backup, or
    missing, such as a policy whose second training was interrupted. With this patch, provenance
    decides. So `--touch` and `--cleanup-metadata` have no effect on settings and on versions of
    inputs.

    Only stale results are made again. The check of the plan reports damaged and foreign ones.

    Incomplete: Snakemake marks the outputs of a job until it has seen the job end. If Snakemake is
    killed or interrupted before, its next run takes marked outputs for incomplete and removes them.
    With this patch, it keeps them if their provenance says that they are whole. With
    `keep-incomplete`, Snakemake also removes the mark of a job that fails. With this patch, the
    mark stays until the outputs are whole.

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
        # Without records, Snakemake would not ask `params_changed`.
        return job.params.get("settings") is not None or has_metadata(persistence, job)

    def settings_changed(persistence: PersistenceBase, job: Any, file: Any = None) -> Any:
        # Rules of the user, and results of which no provenance tells the settings, are left to
        # Snakemake's own records.
        settings_hash = job.params.get("settings")
        if settings_hash is None or not any(has_settings_hash(Path(path)) for path in job.output):
            return params_changed(persistence, job, file)
        inputs = [Path(path) for path in job.input]
        stale = {}
        for path in job.output:
            task = getattr(settings_hash, "task", None)
            staleness = recorded_staleness(Path(path), settings_hash, inputs, task)
            if staleness is not None:
                stale[path] = _old_value(staleness)
        # The old and the new value of the parameter, which `--reason` prints, and the outputs.
        return ParamsChange(set(stale.values()), {settings_hash} if stale else set(), set(stale))

    async def incomplete_outputs(persistence: PersistenceBase, job: Any) -> Any:
        marked = await incomplete(persistence, job)
        task = task_of(job) if marked else None
        # Current outputs are complete, unless a checkpoint remains: they are then those of an
        # earlier training, and the training that was interrupted is not finished.
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
