"""The section Figures: each picture with its caption and numbers."""

import base64
import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.provenance import read_provenance
from rspo.core.tables import read_csv
from rspo.figures import Figure, curves, style
from rspo.figures.captions import full_caption
from rspo.report import figure_files
from rspo.report.page_table import PageTable, page_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MEASURED = 3  # significant digits of measurements without an interval


@dataclass(frozen=True)
class Picture:
    """A picture of the page.

    source: data URL.
    inches: width on paper, where its small print is 7 pt.
    """

    name: str
    caption: str
    alternative: str
    source: str
    inches: float
    numbers: PageTable


def figure_picture(experiment: Experiment, figure: Figure) -> Picture:
    """Raises: InputError if the figure's numbers are not a CSV file."""
    image, numbers = figure_files(experiment, figure)
    note = read_provenance(numbers) or {"settings": {}}
    meanings = note["settings"].get("columns", {})
    content = image.read_bytes()
    return Picture(
        figure.name,
        full_caption(experiment, figure),
        figure.caption.partition(";")[0],
        data_url(content),
        inches(content, style.DOTS_PER_INCH),
        page_table(
            f"Every number of {figure.name}",
            read_csv(numbers),
            meanings,
            # Formulas are exact.
            digits=MEASURED if figure.of_results else 6,
        ),
    )


def pooled_panel(experiment: Experiment, figure: Figure) -> str:
    """The panels of all problems of a figure of curves, for narrow windows, as a data URL."""
    table = read_csv(figure_files(experiment, figure)[1], *curves.COLUMNS)
    texts = ("benchmark", "method", "objective", "reference")
    numbers = [name for name in curves.COLUMNS if name not in texts]
    table[numbers] = table[numbers].apply(pd.to_numeric)
    with style.applied():
        return data_url(png_of(curves.draw_pooled(table, experiment, figure), style.DOTS_PER_INCH))


def png_of(drawing: "Drawing", dots_per_inch: int) -> bytes:
    """The same bytes for the same drawing."""
    stream = io.BytesIO()
    drawing.savefig(stream, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return stream.getvalue()


def data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def inches(png: bytes, dots_per_inch: int) -> float:
    """Width on paper; bytes 16 to 20 of a PNG are its width in dots."""
    (width,) = struct.unpack(">I", png[16:20])
    return round(float(width) / dots_per_inch, 2)
