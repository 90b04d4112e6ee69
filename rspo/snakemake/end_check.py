"""The check at the end of a run: Snakemake itself looks at outputs only when their job ends."""

from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

from rspo.pipeline.task import damage_of
from rspo.snakemake.patches import task_of

MOST_NAMED = 3  # files in an error


def require_results(dag: Any) -> None:
    """Check the targets of a run, and the outputs of the jobs with a step that it ran.

    Other rules, of the user, may remove each other's outputs.

    Args:
        dag: the `snakemake.dag.DAG` of a run that has ended.

    Raises: WorkflowError with a line for each one that is missing or damaged.
    """
    of_steps = [path for job in dag.finished_jobs if task_of(job) for path in job.output]
    files = {*dag.targetfiles, *of_steps}
    ran = {*dag.finished_jobs}
    for job in dag.targetjobs:
        if not job.output:
            files |= {*job.input}
        elif job in ran:
            files |= {*job.output}
    lost = [
        f"{path} is missing at the end of the run"
        for path in sorted(files)
        if _stays_here(path) and not Path(path).exists()
    ]
    lost += [text for path in of_steps if Path(path).exists() and (text := damage_of(Path(path)))]
    lines = lost[:MOST_NAMED]
    if len(lost) > MOST_NAMED:
        lines.append(f"and {len(lost) - MOST_NAMED} more")
    if lines:
        raise WorkflowError("\n".join(lines))


def _stays_here(path: Any) -> bool:
    """Whether a file is a local one that the end of its readers leaves."""
    if getattr(path, "is_storage", False):
        return False
    return not any(is_flagged(path, flag) for flag in ("temp", "pipe", "service"))
