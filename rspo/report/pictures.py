"""The figures as pictures of the report, with their captions and numbers."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.figures import Figure, curves, style
from rspo.figures.captions import full_caption
from rspo.figures.figure import save
from rspo.report import figure_files, figures
from rspo.report.read import table


@dataclass(frozen=True)
class Picture:
    """A figure of the scale: its caption, its picture as PNG, and its numbers as text."""

    figure: Figure
    caption: str
    png: bytes
    numbers: pd.DataFrame

    @property
    def inches(self) -> float:
        """Its width on paper, where its small print is 7 pt."""
        (dots,) = struct.unpack(">I", self.png[16:20])
        return float(dots) / style.DOTS_PER_INCH


def of(experiment: Experiment) -> Iterator[Picture]:
    """The figures, results before formulas.

    Raises: InputError for numbers that are not a CSV file.
    """
    for figure in figures(experiment):
        image, numbers = figure_files(experiment, figure)
        caption = full_caption(experiment, figure)
        yield Picture(figure, caption, image.read_bytes(), read_csv(numbers))


def pooled_panels(experiment: Experiment, figure: Figure) -> dict[str, bytes]:
    """The panels of all problems of a figure of curves as PNG, for wide and narrow windows."""
    frame = table(figure_files(experiment, figure)[1], *curves.COLUMNS)
    numbers = ["k", "difference", "difference_low", "difference_high"]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    pictures = {}
    with style.applied():
        for window in ("wide", "narrow"):
            png = io.BytesIO()
            drawing = curves.draw_pooled(frame, experiment, figure, narrow=window == "narrow")
            save(drawing, png, ".png")
            pictures[window] = png.getvalue()
    return pictures
