"""The reference answer of a row, in all forms that a verifier may accept.

Answers stay as published: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`). Verifiers interpret them.
"""

import math
from typing import Any

from rspo.config.schema import Columns
from rspo.core.errors import InputError
from rspo.datasets.source_row import SourceRow
from rspo.rewards.extraction import final_answers

# The largest range in which every integer is a float.
_LARGEST_EXACT = 2**53


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
            value = row.column(columns.answer)
            raise InputError(
                f"{row.location}: column {columns.answer!r} is {value!r}; expected text"
            )
        forms = [box for solution in forms for box in reversed(final_answers(solution))]
    unit = _written(row.column(columns.unit), columns.unit, row) if columns.unit else None
    return forms + [f"{form} {unit}" for form in forms if unit]


def published(columns: Columns, row: SourceRow) -> list[str]:
    """The texts in a row's answer column.

    Raises: InputError for a value that is not text, a number, or a list of them.
    """
    value = row.column(columns.answer)
    values = value if isinstance(value, list) else [value]
    return [form for item in values if (form := _written(item, columns.answer, row)) is not None]


def _written(value: Any, column: str, row: SourceRow) -> str | None:
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
    raise InputError(
        f"{row.location}: column {column!r} is {value!r}; expected text, numbers, or a list of them"
    )
