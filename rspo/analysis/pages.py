"""Markdown and HTML pages from Jinja templates.

A template looks its numbers up in tables of comparisons, and prints a sentence about a result only
if its condition holds. A missing number is an error that names the template and the line.
"""

import math
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from rspo.analysis.results import ABOVE, BELOW, OPEN, TIE, adjusted_together, shown_by
from rspo.core.errors import InputError

FOLDER = Path(__file__).parent / "templates"  # has the template that all pages of studies share
MINUS = "\u2212"  # the minus sign, which is as wide as a plus, unlike the hyphen


def render(template: Path, contents: Mapping[str, Any]) -> str:
    """A page in Markdown. A template may extend those of its own folder and of the package."""
    templates = environment(template.parent, FOLDER)
    templates.filters |= {"points": points, "interval": interval, "number": number, "shown": shown}
    templates.globals |= {"significant": significant, "tied": tied}
    templates.globals |= {"adjusted_together": adjusted_together}
    return fill(templates, template.name, contents)


def environment(*folders: Path, html: bool = False) -> jinja2.Environment:
    """The templates of some folders; an undefined name is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(environment: jinja2.Environment, name: str, contents: Mapping[str, Any]) -> str:
    """Fill in a template; an error names it and the line that failed."""
    try:
        return environment.get_template(name).render(contents)
    except Exception as error:  # the template may be the user's own and raise anything
        # In a traceback, Jinja gives its frames the file and the line of the template.
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame for frame in frames if frame.filename.endswith(".jinja")]
        place = f"{lines[-1].filename}, line {lines[-1].lineno}" if lines else name
        raise InputError(f"{place}: {error}") from None


def the_row(table: pd.DataFrame, **wanted: object) -> Mapping[str, Any]:
    """The only row with these values.

    Args:
        wanted: the value of each column that is named.

    Raises: InputError if no row or several rows have them.
    """
    rows = the_rows(table, **wanted)
    if len(rows) != 1:
        listed = ", ".join(f"{key} = {value}" for key, value in wanted.items())
        raise InputError(f"{len(rows)} rows have {listed}; expected one")
    return rows[0]


def the_rows(table: pd.DataFrame, **wanted: object) -> list[dict[str, Any]]:
    """The rows with these values, in the order of the table.

    Raises: InputError for a family that no row has.
    """
    chosen = pd.Series(True, index=table.index)
    for key, value in wanted.items():
        chosen &= table[key] == value
        # A family with a spelling mistake would otherwise leave an empty table on the page.
        if key == "family" and not (table[key] == value).any():
            raise InputError(f"no comparison has the family {value!r}")
    return table[chosen].to_dict("records")


def significant(rows: list[dict[str, Any]], sign: int = 0) -> list[dict[str, Any]]:
    """The rows whose adjusted p-value is below `LEVEL`.

    Args:
        sign: 1 for differences above 0 only, -1 for those below 0 only, 0 for both.
    """
    wanted = {0: (ABOVE, BELOW), 1: (ABOVE,), -1: (BELOW,)}[sign]
    return [row for row in rows if shown_by(row) in wanted]


def tied(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are ties: not significant, and significantly within the margin of a tie."""
    return [row for row in rows if shown_by(row) == TIE]


def points(value: float, sign: bool = True) -> str:
    """A fraction in percentage points, such as "+1.2"."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", MINUS)


def interval(row: Mapping[str, float]) -> str:
    """An estimate and its 95 % interval in percentage points."""
    return f"{points(row['estimate'])} ({points(row['low'])} to {points(row['high'])})"


def shown(row: Mapping[str, Any]) -> str:
    """The same, and whether it is a tie or not resolved if it is not significant."""
    marks = {ABOVE: "", BELOW: "", TIE: " (a tie)", OPEN: " (not resolved)"}
    return interval(row) + marks[shown_by(row)]


def number(value: float, form: str = "g") -> str:
    """A number as text; empty for NaN."""
    return "" if math.isnan(value) else f"{value:{form}}".replace("-", MINUS)
