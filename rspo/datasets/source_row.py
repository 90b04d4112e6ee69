"""Reads the problem and the answers of a row, from the columns that the config names.

Answers stay as published: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`). Verifiers interpret them.
"""

import math
from typing import Any

from rspo.config.schema import Columns
from rspo.formats.rows import Row
from rspo.rewards import digits
from rspo.rewards.extraction import solution_forms


def passes(columns: Columns, row: Row) -> bool:
    """Whether the row passes the filter of the config."""
    rule = columns.filter
    return rule is None or rule.contains in str(row.value(rule.column))


def problem_text(columns: Columns, row: Row) -> str:
    """The text of the problem as published, after its context if the row has one.

    Raises: InputError if it is blank or no text.
    """
    text = row.value(columns.problem)
    if not isinstance(text, str) or not text.strip():
        raise row.refuse(columns.problem, "the problem's text")
    if columns.context:
        context = row.value(columns.context)
        if isinstance(context, str) and context.strip():
            return f"{context}\n\n{text}"
    return text


def accepted_forms(columns: Columns, row: Row) -> list[str]:
    r"""The accepted forms of a row's answer; empty if it has no answer.

    If the answer is a list, each item is a form. If the answer is a solution (`answer_in: box`),
    the last box of the solution is a form, as in the data set MATH. If the solution joins several
    boxes to a list, such as `$x = \boxed{1}$ and $\boxed{9}$`, that list is another form. If the
    row has a unit, each form is accepted with and without the unit.

    Raises: InputError for an answer or unit of another type.
    """
    forms = published(columns, row)
    if columns.answer_in == "box":
        if not isinstance(row.value(columns.answer), str):
            raise row.refuse(columns.answer, "text")
        forms = [form for solution in forms for form in solution_forms(solution)]
    unit = _written(row, columns.unit, row.value(columns.unit)) if columns.unit else None
    if unit is None:
        return forms
    return forms + [f"{form} {unit}" for form in forms]


def published(columns: Columns, row: Row) -> list[str]:
    """The texts in the answer column of a row, without those that are empty."""
    value = row.value(columns.answer)
    values = value if isinstance(value, list) else [value]
    forms = [_written(row, columns.answer, item) for item in values]
    return [form for form in forms if form is not None]


def _written(row: Row, column: str, value: Any) -> str | None:
    """One value as text; the float 142.0 becomes `142`.

    Returns: None for null, NaN and blank text.

    Raises: InputError for a value that is neither text nor a number.
    """
    text = digits(value)
    if isinstance(text, str):
        return text.strip() or None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    raise row.refuse(column, "text, numbers, or a list of them")
