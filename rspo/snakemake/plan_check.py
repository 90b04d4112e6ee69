"""The check of a plan: results that a run would replace, and those that are damaged.

It runs before the first job, in a dry run, and when there is nothing to do; not inside jobs, and
not with `--touch`. It looks at names, sizes and provenance, and reads no result.
"""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged
from snakemake.logging import logger

from rspo.core.errors import InputError
from rspo.pipeline.provenance import inputs_of, provenance_path, read_provenance
from rspo.pipeline.task import Task, damage_of, faults_behind
from rspo.snakemake.patches import task_of

WAYS = "--config results=trial writes to another folder, --config replace=true replaces it"
MOST_NAMED = 3  # results in an error


@cache
def check_every_plan() -> None:
    """Let Snakemake check the plan of each run, once; called again, it changes nothing.

    Snakemake calls `onstart` neither in a dry run nor when there is nothing to do.

    Private: `DAG.postprocess` with `check_initial` ends the planning of a run. The method
    `incomplete` of `workflow.persistence` tells which outputs of a job an earlier run began to
    write.
    """
    from snakemake.dag import DAG

    postprocess = DAG.postprocess

    async def check_at_the_end(
        dag: DAG, *args: Any, check_initial: bool = False, **kwargs: Any
    ) -> None:
        await postprocess(dag, *args, check_initial=check_initial, **kwargs)
        if check_initial and dag.workflow.is_main_process and not dag.workflow.touch:
            incomplete = dag.workflow.persistence.incomplete
            check_plan(dag, {job for job in dag.needrun_jobs() if await incomplete(job)})

    DAG.postprocess = check_at_the_end


def check_plan(dag: Any, interrupted: Collection[Any]) -> None:
    """Refuse to replace what took long or to read what is damaged; report what else is replaced.

    Figures, tables and the report are always replaced: the old file stays until the new one is
    whole.

    Args:
        dag: the planned `snakemake.dag.DAG`.
        interrupted: its planned jobs that an earlier run began and did not finish.

    Raises: WorkflowError with a line for each result.
    """
    planned = {*dag.needrun_jobs()}
    steps = {job: step for job in dag.jobs if (step := task_of(job))}
    made = {job: step for job, step in steps.items() if _exists(job)}
    replaced = {job: step for job, step in made.items() if job in planned and _removes(job, step)}
    damaged = {
        job: damage for job in made if job not in planned and (damage := _damage_of(made[job]))
    }
    try:
        _require_permission(dag, replaced, interrupted)
        _require_sound_inputs(dag, replaced, damaged)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    if replaced:
        cause, *others = _by_cause(dag, replaced)
        first = _why(dag, cause, replaced[cause])
        logger.warning(f"This run makes results again: {first}{_and_more(len(others))}.")
    # A result that somebody removed on purpose is no error.
    missing = [
        text for job, step in steps.items() if job not in planned and (text := _missing_of(step))
    ]
    left = sorted(damaged.values()) + sorted(missing)
    if left:
        logger.warning(f"This run leaves a result as it is: {left[0]}{_and_more(len(left) - 1)}.")


def _exists(job: Any) -> bool:
    return any(Path(path).exists() for path in job.output)


def _removes(job: Any, step: Task) -> bool:
    """Whether Snakemake removes the first output before the command of a job.

    If the command was interrupted and resumes, that output is no finished result.
    """
    stays = all(is_flagged(path, "update") for path in job.output)
    return step.outputs[0].exists() and not stays and not step.is_begun_with_settings()


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""


def _require_permission(
    dag: Any, replaced: Mapping[Any, Task], interrupted: Collection[Any]
) -> None:
    """Raises: InputError for results that took, or may have taken, longer than `replace_above`."""
    refused = {}
    for job, step in replaced.items():
        if time := _long_time(step, job in interrupted):
            refused[job] = time
    lines = []
    for job in _by_cause(dag, refused)[:MOST_NAMED]:
        lines.append(f"{_why(dag, job, replaced[job])}, and {refused[job]}: {WAYS}")
    if len(refused) > MOST_NAMED:
        lines.append(f"and {len(refused) - MOST_NAMED} more")
    if lines:
        raise InputError("\n".join(lines))


def _long_time(step: Task, is_interrupted: bool) -> str | None:
    """How long the outputs took if that is, or may be, above the limit."""
    if step.replace_above is None:
        return None
    minutes = _minutes(step)
    if minutes > step.replace_above:
        return f"took {_duration(minutes)}"
    # Provenance is written last: an interrupted job may have left an output without it.
    if not read_provenance(step.outputs[0]) and not is_interrupted:
        return "how long it took is unknown"
    return None


def _by_cause(dag: Any, jobs: Collection[Any]) -> list[Any]:
    """Jobs with a reason of their own first, those nearest to the data first."""
    if not jobs:
        return []
    levels = {job: number for number, level in enumerate(dag.toposorted()) for job in level}
    return sorted(jobs, key=lambda job: (_is_derived(dag, job), levels[job], str(job.output)))


def _minutes(step: Task) -> float:
    """The longest time that an output took, by its provenance; 0 if none has provenance."""
    notes = [read_provenance(path) for path in step.outputs]
    return max(float(note.get("wall_seconds", 0)) for note in notes) / 60


def _duration(minutes: float) -> str:
    return f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes:.0f} minutes"


def _is_derived(dag: Any, job: Any) -> bool:
    """Whether a job runs only because another one makes its inputs again."""
    reason = dag.reason(job)
    own = reason.forced or reason.missing_output or reason.params_changed or reason.input_changed
    return not (own or reason.updated_input - reason.updated_input_run)


def _why(dag: Any, job: Any, step: Task) -> str:
    """A sentence that says why the first output of a planned job is made again."""
    path, *others = step.outputs
    reason = dag.reason(job)
    if fault := step.fault_of(path, contents=False):
        return fault
    for other in others:
        if not other.exists():
            return f"{path} is made again with {other}, which is missing"
        if fault := step.fault_of(other, contents=False):
            return f"{path} is made again, because {fault}"
    if reason.forced:
        return f"{path} is made again because of {_force(dag, job)}"
    for source in sorted(reason.updated_input_run):
        return f"{path} is made again, because {source} is"
    for source in sorted(reason.updated_input):
        then = inputs_of(path, read_provenance(path)).get(Path(source))
        if then and then == read_provenance(Path(source)).get("digest"):
            return f"{path} is older than {source}, which has not changed (--touch accepts it)"
        return f"{path} is older than {source}"
    return f"{path} is made again ({reason})"


def _force(dag: Any, job: Any) -> str:
    """The option that forces a job, or an interrupted run."""
    options = dag.workflow.dag_settings
    if options.forceall:
        return "--forceall"
    if options.forcetargets and job in dag.targetjobs:
        return "--force"
    is_named = not {*options.forcerun}.isdisjoint(job.output)
    return "--forcerun" if is_named or job.rule in dag.forcerules else "an interrupted run"


def _damage_of(step: Task) -> str | None:
    """The first existing output with other names or sizes than its provenance."""
    for path in step.outputs:
        if path.exists() and (damage := damage_of(path)):
            return f"{damage}; {step.remedy_for(path)}"
    return None


def _missing_of(step: Task) -> str | None:
    """The first output that does not exist, though its provenance does."""
    for path in step.outputs:
        if not path.exists() and provenance_path(path).exists():
            return f"{path} is missing; {step.remedy}"
    return None


def _require_sound_inputs(
    dag: Any, replaced: Mapping[Any, Task], damaged: Mapping[Any, str]
) -> None:
    """Raises: InputError for a fault behind an input of a planned job.

    Otherwise Snakemake removes the outputs of a job before its command finds the fault.
    """
    for job, damage in damaged.items():
        if _is_read(dag, job):
            raise InputError(damage)
    outputs = [Path(path) for job in dag.needrun_jobs() for path in job.output]
    inputs = [pair for step in replaced.values() for pair in step.inputs()]
    for fault in faults_behind(inputs, planned=outputs).values():
        raise InputError(fault)


def _is_read(dag: Any, job: Any) -> bool:
    """Whether a planned job reads the outputs of a job, or what is made from them."""
    seen = {job}
    queue = [job]
    while queue:
        for reader in dag.depending[queue.pop()]:
            if dag.needrun(reader) and reader.output:
                return True
            if reader not in seen:
                seen.add(reader)
                queue.append(reader)
    return False
