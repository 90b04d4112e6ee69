"""The check of a plan: which results a run would replace, and which are damaged.

It runs before the first job, also in a dry run and when there is nothing to do. It does not run
inside jobs. With `--touch`, which replaces nothing, it only names what stays stale. It looks at
names, sizes and provenance, and reads no result.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged
from snakemake.logging import logger

from rspo.core.errors import InputError
from rspo.pipeline.provenance import changed_code, inputs_of, read_provenance
from rspo.pipeline.state import (
    Condition,
    State,
    behind,
    content_state,
    is_begun_with_settings,
    is_removed,
    refusals,
    state,
    state_of,
)
from rspo.pipeline.task import Task
from rspo.snakemake.patches import task_of

WAYS = "--config results=trial writes to another folder, --config replace=true replaces it"
RESULTS_IN_ERROR = 3  # the most results that an error describes


@cache
def check_every_plan() -> None:
    """Make Snakemake call `check_plan` once per run. A second call of this function has no effect.

    An `onstart` would not do, because Snakemake calls it neither in a dry run nor when there is
    nothing to do.

    Private: `DAG.postprocess` ends the planning of a run if `check_initial` is true. The method
    `incomplete` of `workflow.persistence` returns the outputs of a job that an earlier run began to
    write and did not finish.
    """
    from snakemake.dag import DAG

    postprocess = DAG.postprocess

    async def check_at_the_end(
        dag: DAG, *args: Any, check_initial: bool = False, **kwargs: Any
    ) -> None:
        await postprocess(dag, *args, check_initial=check_initial, **kwargs)
        if not check_initial or not dag.workflow.is_main_process:
            return
        if dag.workflow.touch:
            name_what_touch_leaves(dag)
            return
        incomplete = dag.workflow.persistence.incomplete
        check_plan(dag, {job for job in dag.needrun_jobs() if await incomplete(job)})

    DAG.postprocess = check_at_the_end


def check_plan(dag: Any, interrupted: Collection[Any]) -> None:
    """Refuse to replace results that took long, or to read damaged results. Report other changes.

    Figures, tables and the report need no permission. They have the flag `update`, so the old file
    stays until the new one is whole.

    Args:
        dag: the planned `snakemake.dag.DAG`.
        interrupted: the planned jobs that an earlier run began and did not finish.

    Raises: WorkflowError with a line for each result that forbids the run.
    """
    planned = set(dag.needrun_jobs())
    tasks = _tasks(dag)
    replaced = {}
    kept = {}
    for job, task in tasks.items():
        if job not in planned:
            kept[job] = [content_state(path, task=task) for path in task.outputs]
        elif _removes(job, task):
            replaced[job] = task
    _name_changed_code(task for job, task in tasks.items() if job not in planned)
    damaged = _refusals(kept, Condition.DAMAGED, Condition.FOREIGN)
    # A result that somebody removed on purpose is no error.
    missing = _refusals(kept, Condition.MISSING)
    try:
        _require_permission(dag, replaced, interrupted)
        _require_sound_inputs(dag, replaced, damaged)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    if replaced:
        cause, *others = _by_cause(dag, replaced)
        why = _why(dag, cause, replaced[cause])
        line = f"This run makes results again: {why}{_and_more(len(others))}."
        # In a dry run, the log handler `rspo` prints it last, because the tables of jobs are long.
        logger.warning(line, extra={"is_conclusion": True})
    _name_first("This run leaves a result as it is", damaged)
    _name_first(
        "This run does not make a missing result again, because the files made from it exist",
        missing,
    )


def _name_first(what: str, refusals: Mapping[Any, str]) -> None:
    """Warn of the first of some results, if there is one, and say how many more there are."""
    if refusals:
        lines = sorted(refusals.values())
        logger.warning(f"{what}: {lines[0]}{_and_more(len(lines) - 1)}.")


def name_what_touch_leaves(dag: Any) -> None:
    """Warn of results that the next run makes again, although `--touch` gives them new times."""
    tasks = _tasks(dag)
    stale = {}
    for job in dag.needrun_jobs():
        if job in tasks and state(tasks[job]).condition is Condition.STALE:
            stale[job] = tasks[job]
    if stale:
        first, *others = _by_cause(dag, stale)
        logger.warning(
            f"--touch changes times only: {state(tasks[first])}{_and_more(len(others))}; the next "
            "run makes that again."
        )


def _name_changed_code(kept: Iterable[Task]) -> None:
    """Warn of the user's functions that have changed since results were made with them.

    Their version decides whether results are made again, so that a new comment does not train weeks
    again.
    """
    made_with: dict[str, int] = {}
    for task in kept:
        for name in changed_code(task.outputs[0]):
            made_with[name] = made_with.get(name, 0) + 1
    for name, count in made_with.items():
        results = "1 result was" if count == 1 else f"{count} results were"
        logger.warning(
            f"{name} has changed since {results} made with it, which this run keeps; raise "
            "`version` where its function is registered to make them again."
        )


def _tasks(dag: Any) -> dict[Any, Task]:
    """The jobs of this workflow, each with its task; rules of the user have none."""
    tasks = {}
    for job in dag.jobs:
        task = task_of(job)
        if task is not None:
            tasks[job] = task
    return tasks


def _refusals(outputs: Mapping[Any, Sequence[State]], *conditions: Condition) -> dict[Any, str]:
    """A sentence for each job that has an output in one of these conditions.

    Outputs that were never made, so that no provenance remains of them, do not count as missing.
    """
    sentences = {}
    for job, states in outputs.items():
        for output in states:
            if output.condition is Condition.MISSING and not is_removed(output.path):
                continue  # it was never made
            if output.condition in conditions:
                sentences[job] = output.refusal
                break
    return sentences


def _removes(job: Any, task: Task) -> bool:
    """Whether Snakemake removes a finished result before it runs the command of a job.

    It removes outputs without the flag `update`. If the command was interrupted and resumes, the
    output is not a finished result.
    """
    stays = all(is_flagged(path, "update") for path in job.output)
    return task.outputs[0].exists() and not stays and not is_begun_with_settings(task)


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""


def _require_permission(
    dag: Any, replaced: Mapping[Any, Task], interrupted: Collection[Any]
) -> None:
    """Raises: InputError if a replaced result took, or may have taken, longer than the limit.

    The limit is the `replace_above` of the task.
    """
    refused = {}
    for job, task in replaced.items():
        time = _long_time(task, job in interrupted)
        if time:
            refused[job] = time
    lines = []
    for job in _by_cause(dag, refused)[:RESULTS_IN_ERROR]:
        lines.append(f"{_why(dag, job, replaced[job])}, and {refused[job]}: {WAYS}")
    if len(refused) > RESULTS_IN_ERROR:
        lines.append(f"and {len(refused) - RESULTS_IN_ERROR} more")
    if lines:
        raise InputError("\n".join(lines))


def _long_time(task: Task, is_interrupted: bool) -> str | None:
    """Words for how long the outputs took, if that is, or may be, above the limit; else None."""
    if task.replace_above is None:
        return None
    minutes = _minutes(task)
    if minutes > task.replace_above:
        return f"took {_duration(minutes)}"
    # A task writes provenance last, so an interrupted job may have left an output without it.
    if not read_provenance(task.outputs[0]) and not is_interrupted:
        return "how long it took is unknown"
    return None


def _by_cause(dag: Any, jobs: Collection[Any]) -> list[Any]:
    """Sort jobs for a message, so that causes come before their consequences.

    Jobs with a reason of their own come before those that run only because another job does. Within
    each group, the jobs nearest to the data come first.
    """
    if not jobs:
        return []
    levels = {job: number for number, level in enumerate(dag.toposorted()) for job in level}
    return sorted(jobs, key=lambda job: (_is_derived(dag, job), levels[job], str(job.output)))


def _minutes(task: Task) -> float:
    """The longest time that an output took, in minutes; 0 if no output has provenance."""
    notes = [read_provenance(path) for path in task.outputs]
    return max(float(note.get("wall_seconds", 0)) for note in notes) / 60


def _duration(minutes: float) -> str:
    return f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes:.0f} minutes"


def _is_derived(dag: Any, job: Any) -> bool:
    """Whether a job runs only because another job makes its inputs again."""
    # `updated_input` has the inputs that are newer than the outputs, and `updated_input_run` those
    # that jobs of this run make again.
    reason = dag.reason(job)
    own = reason.forced or reason.missing_output or reason.params_changed or reason.input_changed
    return not (own or reason.updated_input - reason.updated_input_run)


def _why(dag: Any, job: Any, task: Task) -> str:
    """A sentence that says why the first output of a planned job is made again."""
    # The state of the results explains most; then Snakemake's own reason does.
    path, *others = task.outputs
    reason = dag.reason(job)
    first = state_of(task, path)
    if first.is_fault:
        return str(first)
    for other in others:
        output = state_of(task, other)
        if output.condition is Condition.MISSING:
            return f"{path} is made again with {other}, which is missing"
        if output.is_fault:
            return f"{path} is made again, because {output}"
    if reason.forced:
        return f"{path} is made again because of {_force(dag, job)}"
    # The first input in alphabetical order is enough for a message.
    for source in sorted(reason.updated_input_run):
        return f"{path} is made again, because {source} is"
    for source in sorted(reason.updated_input):
        then = inputs_of(path, read_provenance(path)).get(Path(source))
        if then and then == read_provenance(Path(source)).get("digest"):
            return f"{path} is older than {source}, which has not changed (--touch accepts it)"
        return f"{path} is older than {source}"
    return f"{path} is made again ({reason})"


def _force(dag: Any, job: Any) -> str:
    """What forces a job: the name of an option, or words for an interrupted run."""
    options = dag.workflow.dag_settings
    if options.forceall:
        return "--forceall"
    if options.forcetargets and job in dag.targetjobs:
        return "--force"
    is_named = not set(options.forcerun).isdisjoint(job.output)
    return "--forcerun" if is_named or job.rule in dag.forcerules else "an interrupted run"


def _require_sound_inputs(
    dag: Any, replaced: Mapping[Any, Task], damaged: Mapping[Any, str]
) -> None:
    """Raises: InputError if an input of a planned job, or what it was made from, has a fault.

    The command of the job would refuse it too, but only after Snakemake has removed the outputs of
    the job.

    Args:
        replaced: the jobs whose results the run replaces, with their tasks.
        damaged: the jobs that do not run and have a faulty output, with a sentence about it.
    """
    for job, damage in damaged.items():
        if _is_read(dag, job):
            raise InputError(damage)
    outputs = [Path(path) for job in dag.needrun_jobs() for path in job.output]
    inputs = [pair for task in replaced.values() for pair in task.inputs()]
    for _, refusal in refusals(behind(inputs, planned=outputs).values()):
        raise InputError(refusal)


def _is_read(dag: Any, job: Any) -> bool:
    """Whether a planned job reads the outputs of `job`, or files that were made from them."""
    seen = {job}
    queue = [job]
    while queue:
        for reader in dag.depending[queue.pop()]:
            # Rules without outputs, such as `all`, only collect files and read none.
            if dag.needrun(reader) and reader.output:
                return True
            if reader not in seen:
                seen.add(reader)
                queue.append(reader)
    return False
