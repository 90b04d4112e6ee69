"""Errors for missing inputs of a figure, with the command that makes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rspo.core.errors import InputError

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment


def require_files(experiment: "Experiment", paths: Sequence[Path], name: str, output: Path) -> None:
    """Check that all inputs exist.

    Args:
        paths: of the inputs.
        name: of the figure that needs them.
        output: one of the figure's files.

    Raises: InputError that names the first missing input and the command that makes it.
    """
    missing = [path for path in paths if not path.is_file()]
    if not missing:
        return
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise InputError(
        f"{missing[0]}: no such file{more}; {name} needs it; make it with "
        f"`{command(experiment, missing[0])}`, or all inputs and the figure with "
        f"`{command(experiment, output)}`"
    )


def command(experiment: "Experiment", target: Path) -> str:
    """The Snakemake command that makes one file."""
    options = [] if experiment.scale == "tiny" else [f"scale={experiment.scale}"]
    if experiment.config.seeds > 1:
        options.append(f"seeds={experiment.config.seeds}")
    # --config takes every word after it, so the target comes first.
    return " ".join(["snakemake", str(target), *(["--config", *options] if options else [])])
