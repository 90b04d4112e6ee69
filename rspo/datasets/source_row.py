"""One row of a source of problems: its location, its problem and its answers.

Answers stay as published: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`). Verifiers interpret them.
"""

import math
from dataclasses import dataclass
from typing import Any

from rspo.config.schema import Columns
from rspo.core.errors import InputError
from rspo.rewards.extraction import final_answers

# The largest range in which every integer is a float.
_LARGEST_EXACT = 2**53


@dataclass(frozen=True)
class SourceRow:
    """One row as published, with its location.

    source: id[/config]/split on the hub, or the name of a file.
    revision: commit of the hub's repository, or sha256:... of a file.
    row: index in the source.
    origin: for messages: the file or the hub's page.
    place: the row within the origin, such as "line 3".
    """

    columns: dict[str, Any]
    source: str
    revision: str
    row: int
    origin: str
    place: str

    def column(self, name: str) -> Any:
        """Raises: InputError that names the file, the column and the existing columns."""
        if name not in self.columns:
            raise InputError(
                f"{self.origin}, {self.place}: has no column {name!r}; "
                f"has {', '.join(self.columns)}"
            )
        return self.columns[name]

    def refuse(self, column: str, expected: str) -> InputError:
        """The error for a value of the row."""
        value = self.column(column)
        return InputError(
            f"{self.origin}, {self.place}: column {column!r} is {value!r}; expected {expected}"
        )


def passes(columns: Columns, row: SourceRow) -> bool:
    """Whether the row passes the filter of the config."""
    rule = columns.filter
    return rule is None or rule.contains in str(row.column(rule.column))


def problem_text(columns: Columns, row: SourceRow) -> str:
    """The problem as published, after its context.

    Raises: InputError if it is missing.
    """
    text = row.column(columns.problem)
    if not isinstance(text, str) or not text.strip():
        raise row.refuse(columns.problem, "the problem's text")
    context = row.column(columns.context) if columns.context else None
    return f"{context}\n\n{text}" if isinstance(context, str) and context.strip() else text


def accepted_forms(columns: Columns, row: SourceRow) -> list[str]:
    r"""Accepted forms of a row's answer; empty if it has no answer.

    Each item of a list is a form. A solution's last box is a form (MATH's own rule); if boxes form
    a list, such as `$x = \boxed{1}$ and $\boxed{9}$`, all of them together are another. With a
    unit, each form is accepted with and without it.

    Raises: InputError for a value that is not text, a number, or a list of them.
    """
    forms = published(columns, row)
    if columns.answer_in == "box":
        if not isinstance(row.column(columns.answer), str):
            raise row.refuse(columns.answer, "text")
        forms = [box for solution in forms for box in reversed(final_answers(solution))]
    unit = _written(row, columns.unit, row.column(columns.unit)) if columns.unit else None
    return forms + [f"{form} {unit}" for form in forms if unit]


def published(columns: Columns, row: SourceRow) -> list[str]:
    """The texts in a row's answer column.

    Raises: InputError for a value that is not text, a number, or a list of them.
    """
    value = row.column(columns.answer)
    values = value if isinstance(value, list) else [value]
    forms = [_written(row, columns.answer, item) for item in values]
    return [form for form in forms if form is not None]


def _written(row: SourceRow, column: str, value: Any) -> str | None:
    """One value as text; the float 142.0 becomes `142`.

    Returns: None for null, NaN and blank text.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_EXACT:
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value.strip() or None
    raise row.refuse(column, "text, numbers, or a list of them")
