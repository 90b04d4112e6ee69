"""The answer of a source's row, in the forms that a verifier may accept.

Nothing is interpreted: leading zeros (`025`), e-notation (`4.5e33`), degrees, dollar signs and
lists in one text (`$69$,$84$`) stay as published. What they mean is for a verifier to say.
"""

import math
from typing import Any

from rspo.config import Hub
from rspo.datasets.hub import SourceRow
from rspo.errors import InputError
from rspo.rewards.extraction import last_box

# Up to here a float stands for one whole number only; beyond it, its digits would be made up.
_LARGEST_EXACT = 2**53


def accepted_forms(hub: Hub, row: SourceRow) -> list[str]:
    """Accepted forms of a row's answer; none if it has no answer.

    A list gives one form each, a text with several boxes its last box and all of them, and a unit
    adds each form with its unit.

    Raises: InputError for a value that is neither text, a number, nor a list of them.
    """
    value = row.column(hub.answer)
    if hub.answer_in == "box":
        if not isinstance(value, str):
            raise InputError(f"{row.place}: column {hub.answer!r} is {value!r}; expected text")
        value = _boxed(value)
    values = value if isinstance(value, list) else [value]
    forms = [form for item in values if (form := _written(item, hub.answer, row)) is not None]
    unit = _written(row.column(hub.unit), hub.unit, row) if hub.unit else None
    return forms + [f"{form} {unit}" for form in forms if unit]


def _boxed(solution: str) -> list[str]:
    r"""The last box of a solution, which is MATH's own rule; then all, if they are not the same.

    Of `$x = \boxed{1}$ and $\boxed{9}$` the last one is half of the answer; of `\boxed{0.5} =
    \boxed{\frac12}` it is all. Only a reader can tell, so `9` and `1, 9` are both accepted.
    """
    boxes: list[str] = []
    while (box := last_box(solution)) is not None:
        boxes.insert(0, box)
        solution = solution[: max(solution.rfind("\\boxed"), solution.rfind("\\fbox"))]
    every = list(dict.fromkeys(boxes))
    return boxes[-1:] + ([", ".join(every)] if len(every) > 1 else [])


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
