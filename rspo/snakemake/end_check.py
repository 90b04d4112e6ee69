"""The check at the end of a run: Snakemake itself looks at outputs only when their job ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

from rspo.core.settings import first_lines
from rspo.pipeline.state import content_state
from rspo.snakemake.patches import task_of

FILES_IN_ERROR = 3


def require_results(dag: Any) -> None:
    """Check the targets of a run, and the outputs of the jobs with a task that it ran.

    Other rules, of the user, may remove each other's outputs.

    Args:
        dag: the `snakemake.dag.DAG` of a run that has ended.

    Raises: WorkflowError with a line for each one that is missing or damaged.
    """
    outputs = [path for job in dag.finished_jobs if task_of(job) for path in job.output]
    lost = []
    for path in sorted(set(outputs).union(dag.targetfiles, _files_of_targets(dag))):
        if _stays_here(path) and not Path(path).exists():
            lost.append(f"{path} is missing at the end of the run")
    for path in outputs:
        content = content_state(Path(path))
        if content.is_fault:
            lost.append(str(content))
    if lost:
        raise WorkflowError("\n".join(first_lines(lost, FILES_IN_ERROR)))


def _files_of_targets(dag: Any) -> Iterator[Any]:
    """The files of the jobs that are targets: the outputs of those that ran, or what they need."""
    finished = set(dag.finished_jobs)
    for job in dag.targetjobs:
        if not job.output:
            yield from job.input
        elif job in finished:
            yield from job.output


def _stays_here(path: Any) -> bool:
    """Whether a file is a local one that the end of its readers leaves."""
    if getattr(path, "is_storage", False):
        return False
    return not any(is_flagged(path, flag) for flag in ("temp", "pipe", "service"))
