"""The check at the end of a run: Snakemake itself looks at outputs only when their job ends."""

from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import is_flagged

from rspo.core.step import damage_of
from rspo.slurm.snakemake_patches import step_of

MOST_NAMED = 3  # files in an error


def require_results(dag: Any) -> None:
    """Check the targets of a run, and the outputs of the jobs that it ran.

    Args:
        dag: the `snakemake.dag.DAG` of a run that has ended.

    Raises: WorkflowError with a line for each one that is missing or damaged.
    """
    of_steps = [path for job in dag.finished_jobs if step_of(job) for path in job.output]
    files = {*dag.targetfiles}
    files |= {path for job in dag.targetjobs if not job.output for path in job.input}
    files |= {path for job in dag.finished_jobs for path in job.output}
    lost = [
        f"{path} is missing at the end of the run"
        for path in sorted(files)
        if not is_flagged(path, "temp") and not Path(path).exists()
    ]
    lost += [text for path in of_steps if Path(path).exists() and (text := damage_of(Path(path)))]
    lines = lost[:MOST_NAMED]
    if len(lost) > MOST_NAMED:
        lines.append(f"and {len(lost) - MOST_NAMED} more")
    if lines:
        raise WorkflowError("\n".join(lines))
