"""The commands of the panel Data."""

from typing import TYPE_CHECKING

from rspo.cli.command import command
from rspo.cli.options import DataSet, Force, Mirror

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

PANEL = "Data"


@command(PANEL, "rspo prepare linear")
def prepare(
    experiment: "Experiment", data_set: DataSet, mirror: Mirror = None, force: Force = False
) -> None:
    """Write the problems of a data set."""
    from rspo.datasets.prepare import prepare

    prepare(experiment, data_set, mirror, force)
