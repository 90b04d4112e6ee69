"""One row of a source of problems: its location, its problem and its answers.

Answers stay as published: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`). Verifiers interpret them.
"""

import math
from typing import Any

from rspo.config.schema import Columns
from rspo.formats.rows import Row
from rspo.rewards import digits
from rspo.rewards.extraction import final_answers


def passes(columns: Columns, row: Row) -> bool:
    """Whether the row passes the filter of the config."""
    rule = columns.filter
    return rule is None or rule.contains in str(row.value(rule.column))


def problem_text(columns: Columns, row: Row) -> str:
    """The problem as published, after its context.

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
    r"""Accepted forms of a row's answer; empty if it has no answer.

    Each item of a list is a form. A solution's last box is a form (MATH's own rule). If boxes form
    a list, such as `$x = \boxed{1}$ and $\boxed{9}$`, that list is another form. If the row has a
    unit, each form is accepted with and without it.

    Raises: InputError for an answer or unit of another type.
    """
    forms = published(columns, row)
    if columns.answer_in == "box":
        if not isinstance(row.value(columns.answer), str):
            raise row.refuse(columns.answer, "text")
        forms = [box for solution in forms for box in reversed(final_answers(solution))]
    unit = _written(row, columns.unit, row.value(columns.unit)) if columns.unit else None
    if unit is None:
        return forms
    return forms + [f"{form} {unit}" for form in forms]


def published(columns: Columns, row: Row) -> list[str]:
    """The texts in a row's answer column."""
    value = row.value(columns.answer)
    values = value if isinstance(value, list) else [value]
    forms = [_written(row, columns.answer, item) for item in values]
    return [form for form in forms if form is not None]


def _written(row: Row, column: str, value: Any) -> str | None:
    """One value as text; the float 142.0 becomes `142`.

    Returns: None for null, NaN and blank text.
    """
    text = digits(value)
    if isinstance(text, str):
        return text.strip() or None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    raise row.refuse(column, "text, numbers, or a list of them")
