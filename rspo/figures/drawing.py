"""From a figure's rows to its three files."""

import csv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Picture

from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance
from rspo.figures import style

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment
    from rspo.figures import Figure

Row = Mapping[str, str | int | float]


def draw_files(experiment: "Experiment", figure: "Figure") -> None:
    """Write a figure's .pdf, .png and .csv, and the provenance of each."""
    module: Any = import_module(f"rspo.figures.{figure.module}")
    context = (experiment, figure) if figure.of_results else ()
    with style.applied():
        rows: list[Row] = module.numbers(*context)
        picture: Picture = module.picture(rows, *context)
        paths = figure.outputs(experiment)
        with ExitStack() as stack:
            # All three are complete before the first is renamed into place.
            for path in paths:
                _save(stack.enter_context(atomic_write(path)), picture, rows, module.COLUMNS)
    settings = figure.settings(experiment) | {"columns": module.COLUMNS}
    for path in paths:
        write_provenance(path, settings, figure.inputs(experiment))


def _save(path: Path, picture: Picture, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    if path.suffix == ".csv":
        write_csv(path, rows, columns)
    elif path.suffix == ".pdf":
        # Without its date the file is the same at every drawing.
        picture.savefig(path, format="pdf", metadata={"CreationDate": None})
    else:
        picture.savefig(path, format="png", dpi=style.DOTS_PER_INCH, metadata={"Software": None})


def write_csv(path: Path, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Rows in the given columns; floats in full, so that reading them gives the same numbers.

    Raises: ValueError if a row has other keys than the columns.
    """
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            if row.keys() != columns.keys():
                raise ValueError(f"a row has {list(row)}, the columns are {list(columns)}")
            writer.writerow([row[column] for column in columns])
