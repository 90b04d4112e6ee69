"""Tables as the page shows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from rspo.report.rounding import rounded


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
    caption: str,
    frame: pd.DataFrame,
    meanings: Mapping[str, str] | None = None,
    digits: int = 6,
) -> PageTable:
    """All columns and rows of a frame; numbers with an interval are rounded by it, NaN is empty.

    Args:
        digits: significant digits of other numbers.
    """
    rows = [_row(row, digits) for row in frame.astype(object).fillna("").to_dict("records")]
    return PageTable(caption, list(frame.columns), rows, meanings or {})


def _row(row: Mapping[Any, Any], digits: int) -> list[str]:
    halves = _half_widths(row)
    return [_cell(str(column), value, halves, digits) for column, value in row.items()]


def _half_widths(row: Mapping[Any, Any]) -> dict[str, float]:
    """Half of the width of the interval of each column that has one."""
    halves: dict[str, float] = {}
    for low in (name for name in row if str(name).endswith("low")):
        prefix = str(low).removesuffix("low")  # such as "multiple_", or nothing
        value = prefix.removesuffix("_") or "estimate"
        half = (_real(row.get(f"{prefix}high")) - _real(row[low])) / 2
        if half > 0:
            columns = [value, f"{prefix}low", f"{prefix}high"]
            columns += ["lowest", "highest"] if value == "estimate" else []
            halves |= dict.fromkeys(columns, half)
    return halves


def _cell(column: str, value: Any, halves: Mapping[str, float], digits: int) -> str:
    real = _real(value)
    if not math.isfinite(real):
        return str(value)
    if column in halves:
        return rounded(real, halves[column])
    if column.startswith("error"):
        return rounded(real, real)
    return number(value, 2 if column in ("p", "p_adjusted", "degrees") else digits)


def _real(value: Any) -> float:
    """NaN for text that is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def number(value: Any, digits: int = 6) -> str:
    """A number with this many significant digits at most; integers and other text unchanged."""
    text, real = str(value), _real(value)
    if text.lstrip("+-").isdigit() or not math.isfinite(real):
        return text
    return f"{real:.{digits}g}"
