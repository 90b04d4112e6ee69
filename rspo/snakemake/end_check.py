"""The check at the end of a run: all results still exist and are whole.

Snakemake looks at the outputs of a job only when the job ends, so it does not notice if a later job
or a user removes or changes them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

from rspo.core.settings import first_lines
from rspo.pipeline.state import content_state
from rspo.snakemake.patches import task_of

FILES_IN_ERROR = 3  # the most files that the error names


def require_results(dag: Any) -> None:
    """Check the targets of a run, and the outputs of all jobs of this workflow that it ran.

    A job of this workflow has a task. Jobs of a user's own rules have none. They may remove each
    other's outputs, so their outputs are checked only if they are targets.

    Args:
        dag: the `snakemake.dag.DAG` of a run that has ended.

    Raises: WorkflowError with a line for each file that is missing or damaged.
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
    """Yield the files of the jobs that are targets.

    For a rule without outputs, such as `all`, these are its inputs. For another rule, they are its
    outputs, if it ran.
    """
    finished = set(dag.finished_jobs)
    for job in dag.targetjobs:
        if not job.output:
            yield from job.input
        elif job in finished:
            yield from job.output


def _stays_here(path: Any) -> bool:
    """Whether a file must exist at the end of a run.

    Snakemake removes files with the flags below after their last reader, and files of a remote
    storage after their upload.
    """
    if getattr(path, "is_storage", False):
        return False
    return not any(is_flagged(path, flag) for flag in ("temp", "pipe", "service"))
