"""The answer of a source's row, in the forms that a verifier may accept.

Nothing is interpreted: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`) stay as published. What they mean is for a verifier to say.
"""

import math
from typing import Any

from rspo.config.schema import Hub
from rspo.core.errors import InputError
from rspo.datasets.hub import SourceRow
from rspo.rewards.extraction import final_answers

# Up to here a float stands for one whole number only; beyond it, its digits would be made up.
_LARGEST_EXACT = 2**53


def accepted_forms(hub: Hub, row: SourceRow) -> list[str]:
    r"""Accepted forms of a row's answer; none if it has no answer.

    A list gives one form each. A solution gives its last box, which is MATH's own rule, and where
    boxes are joined to a list, all of them too: of `$x = \boxed{1}$ and $\boxed{9}$` the last one
    is half of the answer. A unit adds each form with its unit.

    Raises: InputError for a value that is neither text, a number, nor a list of them.
    """
    forms = published(hub, row)
    if hub.answer_in == "box":
        if not isinstance(row.column(hub.answer), str):
            found = row.column(hub.answer)
            raise InputError(f"{row.place}: column {hub.answer!r} is {found!r}; expected text")
        forms = [box for solution in forms for box in reversed(final_answers(solution))]
    unit = _written(row.column(hub.unit), hub.unit, row) if hub.unit else None
    return forms + [f"{form} {unit}" for form in forms if unit]


def published(hub: Hub, row: SourceRow) -> list[str]:
    """The texts in a row's answer column.

    Raises: InputError for a value that is neither text, a number, nor a list of them.
    """
    value = row.column(hub.answer)
    values = value if isinstance(value, list) else [value]
    return [form for item in values if (form := _written(item, hub.answer, row)) is not None]


def _written(value: Any, column: str, row: SourceRow) -> str | None:
    """One value as text: the float 142.0 as `142`, everything else as it stands.

    Returns: None for nothing: null, NaN, or only spaces.
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
        f"{row.place}: column {column!r} has {value!r}; allowed: text, numbers, or a list of them"
    )
