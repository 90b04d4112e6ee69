"""Tables as the page shows them: CSV files, and what is made of them."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError

Row = dict[str, str]


@dataclass(frozen=True)
class Shown:
    """One table of the page.

    columns: headings, over as many cells as each row has.
    meanings: what a column holds, where that is known.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    meanings: Mapping[str, str] = field(default_factory=dict)


def read_csv(path: Path, *needed: str, empty: bool = False) -> list[Row]:
    """Rows of a CSV file by column.

    Args:
        empty: whether it may have no rows.

    Raises: InputError if it is missing, is no such table, or lacks one of the columns needed.
    """
    try:
        with path.open(newline="") as stream:
            reader = csv.DictReader(stream, restval="", strict=True)
            rows = list(reader)
            columns = list(reader.fieldnames or ())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV table ({error})") from None
    missing = [name for name in needed if name not in columns]
    if missing:
        raise InputError(f"{path}: the column {missing[0]!r} is missing; has {', '.join(columns)}")
    if not rows and not empty:
        raise InputError(f"{path}: has no rows")
    return rows


def shown(caption: str, rows: Iterable[Mapping[str, Any]], **more: Any) -> Shown:
    """A table of all columns of some rows, which have the same ones."""
    listed = [dict(row) for row in rows]
    columns = list(listed[0]) if listed else []
    return Shown(caption, columns, [[number(row[c]) for c in columns] for row in listed], **more)


def number(value: Any, digits: int = 6) -> str:
    """So many significant digits of a number that has more; anything else as it stands."""
    text = str(value)
    try:
        found = float(text)
    except ValueError:
        return text
    return (
        text if text.lstrip("+-").isdigit() or not math.isfinite(found) else f"{found:.{digits}g}"
    )
