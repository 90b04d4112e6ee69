"""What to say when a figure's inputs are not there yet."""

from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.figures import Figure


def require_files(experiment: Experiment, figure: Figure) -> None:
    """Raises: InputError that names the first missing input and the command that makes it."""
    missing = [path for path in figure.inputs(experiment) if not path.is_file()]
    if not missing:
        return
    more = f" (and {len(missing) - 1} more that it needs)" if len(missing) > 1 else ""
    raise InputError(
        f"{missing[0]}: no such file, needed by {figure.name}{more}; "
        f"make it with `{command(experiment, missing[0])}`, or all and the figure with "
        f"`{command(experiment, figure.outputs(experiment)[0])}`"
    )


def command(experiment: Experiment, target: Path) -> str:
    """The command that makes one file."""
    options = [] if experiment.scale == "tiny" else [f"scale={experiment.scale}"]
    if experiment.config.seeds > 1:
        options.append(f"seeds={experiment.config.seeds}")
    # The option takes every word that follows it, so the target stands before.
    return " ".join(["snakemake", str(target), *(["--config", *options] if options else [])])
