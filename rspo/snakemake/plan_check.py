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
from rspo.core.provenance import inputs_of, read_provenance
from rspo.core.step import Step, damage_of, faults_behind
from rspo.slurm.snakemake_patches import step_of

WAYS = "--config results=trial writes to another folder, --config replace=true replaces it"
MOST_NAMED = 3  # results in an error


@cache
def check_every_plan() -> None:
    """Let Snakemake check the plan of each run, once; called again, it changes nothing.

    Snakemake calls `onstart` neither in a dry run nor when there is nothing to do.

    Private: `DAG.postprocess` with `check_initial` ends the planning of a run.
    """
    from snakemake.dag import DAG

    postprocess = DAG.postprocess

    async def check_at_the_end(
        dag: DAG, *args: Any, check_initial: bool = False, **kwargs: Any
    ) -> None:
        await postprocess(dag, *args, check_initial=check_initial, **kwargs)
        if check_initial and dag.workflow.is_main_process and not dag.workflow.touch:
            check_plan(dag)

    DAG.postprocess = check_at_the_end


def check_plan(dag: Any) -> None:
    """Refuse to replace what took long or to read what is damaged; report what else is replaced.

    Figures, tables and the report are always replaced: the old file stays until the new one is
    whole.

    Args:
        dag: the planned `snakemake.dag.DAG`.

    Raises: WorkflowError with a line for each result.
    """
    planned = {*dag.needrun_jobs()}
    made = {job: step for job in dag.jobs if _exists(job) and (step := step_of(job))}
    replaced = {job: step for job, step in made.items() if job in planned and _removes(job, step)}
    damaged = {
        job: damage for job in made if job not in planned and (damage := _damage_of(made[job]))
    }
    try:
        _require_permission(dag, replaced)
        _require_sound_inputs(dag, replaced, damaged)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    if replaced:
        cause, *others = _by_cause(dag, replaced)
        first = _why(dag, cause, replaced[cause])
        logger.warning(f"This run makes results again: {first}{_and_more(len(others))}.")
    if damaged:
        first = min(damaged.values())
        logger.warning(f"This run leaves a result as it is: {first}{_and_more(len(damaged) - 1)}.")


def _exists(job: Any) -> bool:
    return any(Path(path).exists() for path in job.output)


def _removes(job: Any, step: Step) -> bool:
    """Whether Snakemake removes the first output before the command of a job.

    If the command was interrupted and resumes, that output is no finished result.
    """
    stays = all(is_flagged(path, "update") for path in job.output)
    return step.outputs[0].exists() and not stays and not step.is_begun_with_settings()


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""


def _require_permission(dag: Any, replaced: Mapping[Any, Step]) -> None:
    """Raises: InputError for results that took longer than `replace_above`."""
    refused = [job for job, step in replaced.items() if _took_long(step)]
    lines = []
    for job in _by_cause(dag, refused)[:MOST_NAMED]:
        step = replaced[job]
        took = _duration(_minutes(step))
        lines.append(f"{_why(dag, job, step)}, and took {took}: {WAYS}")
    if len(refused) > MOST_NAMED:
        lines.append(f"and {len(refused) - MOST_NAMED} more")
    if lines:
        raise InputError("\n".join(lines))


def _took_long(step: Step) -> bool:
    return step.replace_above is not None and _minutes(step) > step.replace_above


def _by_cause(dag: Any, jobs: Collection[Any]) -> list[Any]:
    """Jobs with a reason of their own first, those nearest to the data first."""
    if not jobs:
        return []
    levels = {job: number for number, level in enumerate(dag.toposorted()) for job in level}
    return sorted(jobs, key=lambda job: (_is_derived(dag, job), levels[job], str(job.output)))


def _minutes(step: Step) -> float:
    """How long the first output took, by its provenance."""
    return float(read_provenance(step.outputs[0]).get("wall_seconds", 0)) / 60


def _duration(minutes: float) -> str:
    return f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes:.0f} minutes"


def _is_derived(dag: Any, job: Any) -> bool:
    """Whether a job runs only because another one makes its inputs again."""
    reason = dag.reason(job)
    own = reason.forced or reason.missing_output or reason.params_changed or reason.input_changed
    return not (own or reason.updated_input - reason.updated_input_run)


def _why(dag: Any, job: Any, step: Step) -> str:
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
        forced = job.rule in dag.forcerules or _is_named(dag, job)
        return f"{path} is made again because of {'--forcerun' if forced else 'an interrupted run'}"
    for source in sorted(reason.updated_input_run):
        return f"{path} is made again, because {source} is"
    for source in sorted(reason.updated_input):
        then = inputs_of(path, read_provenance(path)).get(Path(source))
        if then and then == read_provenance(Path(source)).get("digest"):
            return f"{path} is older than {source}, which has not changed (--touch accepts it)"
        return f"{path} is older than {source}"
    return f"{path} is made again ({reason})"


def _is_named(dag: Any, job: Any) -> bool:
    """Whether `--forcerun` names an output of a job."""
    return not {*dag.workflow.dag_settings.forcerun}.isdisjoint(job.output)


def _damage_of(step: Step) -> str | None:
    """The first existing output with other names or sizes than its provenance."""
    for path in step.outputs:
        if path.exists() and (damage := damage_of(path)):
            return f"{damage}; {step.remedy}"
    return None


def _require_sound_inputs(
    dag: Any, replaced: Mapping[Any, Step], damaged: Mapping[Any, str]
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
    seen, queue = {job}, [job]
    while queue:
        for reader in dag.depending[queue.pop()]:
            if dag.needrun(reader) and reader.output:
                return True
            if reader not in seen:
                seen.add(reader)
                queue.append(reader)
    return False
