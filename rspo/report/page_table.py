"""Tables as the page shows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

_OF_INTERVAL = ("estimate", "low", "high")


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
    """All columns and rows of a frame, its numbers rounded.

    In a row with an interval (columns low and high), estimate, interval and errors have the two
    digits of half of the interval that are significant, and no more.
    """
    rows = [_rounded(row) for row in frame.astype(str).to_dict("records")]
    columns = [str(column) for column in frame.columns]
    cells = [[row[column] for column in columns] for row in rows]
    return PageTable(caption, columns, cells, meanings or {})


def _rounded(row: Mapping[Any, str]) -> dict[str, str]:
    half = _half_of_interval(row)
    return {
        str(key): with_error(float(value), half)[0]
        if half and _is_number(value) and (key in _OF_INTERVAL or str(key).startswith("error"))
        else number(value)
        for key, value in row.items()
    }


def _half_of_interval(row: Mapping[Any, str]) -> float:
    """Half of the length of a row's interval; 0 if it has none."""
    low, high = row.get("low", ""), row.get("high", "")
    return (float(high) - float(low)) / 2 if _is_number(low) and _is_number(high) else 0.0


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def with_error(value: float, error: float) -> tuple[str, str]:
    """A value and its error, both with the decimals of the error's first two significant digits."""
    if not (error > 0 and math.isfinite(error)):
        return number(value), number(error)
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f}", f"{error:.{decimals}f}"


def number(value: Any, digits: int = 4) -> str:
    """A number with this many significant digits at most; integers and other text unchanged."""
    text = str(value)
    if not _is_number(text) or text.lstrip("+-").isdigit():
        return text
    return f"{float(text):.{digits}g}"
