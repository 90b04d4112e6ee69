"""Tables as the page shows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class PageTable:
    """One table of the page.

    columns: headings.
    rows: as many cells as there are headings.
    meanings: the meaning of a column, where it is known.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    meanings: Mapping[str, str] = field(default_factory=dict)


def page_table(
    caption: str, frame: pd.DataFrame, meanings: Mapping[str, str] | None = None
) -> PageTable:
    """All columns and rows of a frame, its numbers rounded."""
    rows = frame.map(number).to_numpy().tolist()
    return PageTable(caption, list(frame.columns), rows, meanings or {})


def number(value: Any, digits: int = 6) -> str:
    """A number with this many significant digits at most; integers and other text unchanged."""
    text = str(value)
    try:
        real = float(text)
    except ValueError:
        return text
    return text if text.lstrip("+-").isdigit() or not math.isfinite(real) else f"{real:.{digits}g}"
