"""The commands of the panel Training."""

from typing import TYPE_CHECKING, Annotated

import typer

from rspo.cli.command import command, use_one_thread
from rspo.cli.options import Cell, Force, Mirror, Model
from rspo.core.errors import InputError
from rspo.core.signals import accept_requests

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

PANEL = "Training"


@command(PANEL, "rspo pretrain small")
def pretrain(
    experiment: "Experiment", model: Model, mirror: Mirror = None, force: Force = False
) -> None:
    """Create the base policy of a model: pretrain it, or fetch it from the hub."""
    from rspo.status import display
    from rspo.training.pretraining import make_base_policy

    use_one_thread()
    with display.shown_in_terminal(experiment):
        make_base_policy(experiment, model, mirror, force)


@command(PANEL, "rspo train small--rspo-pass--k4--n16--s0")
def train(
    experiment: "Experiment",
    cell: Cell,
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Print the full config of verl and train nothing."),
    ] = False,
    force: Force = False,
) -> None:
    """Train one cell, or resume it from its checkpoint."""
    from rspo.training.gpu_memory import require_gpu_memory
    from rspo.training.refused_settings import require_allowed_settings

    accept_requests()  # first of all, because SLURM's request to stop may come at any time
    # These come before --print-config, so that a machine without GPUs can check a config.
    name = experiment.cell(cell).name
    require_allowed_settings(experiment, name)
    require_gpu_memory(experiment, name)
    if print_config:
        _print_config(experiment, cell)
        return

    from rspo.status import display
    from rspo.training.train import train as train_cell

    # verl trains in other processes, on which this call would have no effect.
    if experiment.config.engine != "verl":
        use_one_thread()
    with display.shown_in_terminal(experiment):
        train_cell(experiment, cell, force)


@command(PANEL, "rspo derive small--policy-gradient--k1--n16--averaged-0.25--s0")
def derive(experiment: "Experiment", cell: Cell, force: Force = False) -> None:
    """Make the policy of a cell from a trained one: a copy, or an average with its base policy."""
    from rspo.training.derive import derive as derive_cell

    derive_cell(experiment, cell, force)


def _print_config(experiment: "Experiment", cell: str) -> None:
    """Print verl's config of a cell.

    Raises: InputError if another engine trains it.
    """
    if experiment.config.engine != "verl":
        raise InputError("--print-config needs engine = 'verl'; config has engine = 'local'")
    from rspo.training.verl.run import config_text

    print(config_text(experiment.for_cell(cell), cell), end="")


@command(PANEL, "rspo status")
def status(experiment: "Experiment") -> str:
    """Show which policies are finished and which are running."""
    from rspo.status.display import table_text

    if experiment.files.are_elsewhere and not experiment.files.results.is_dir():
        raise InputError(f"--results {experiment.files.results}: no such folder")
    return table_text(experiment)
