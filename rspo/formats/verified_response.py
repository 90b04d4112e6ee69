"""A verified response, the content of a row of `verdicts` or `scores`, and checks of its values."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rspo.formats.rows import Row

HINT = " (`rspo verify` makes a file with verdicts from responses)"  # the end of a message
_VERDICTS_IN_CSV = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class VerifiedResponse:
    """The verdict on a response.

    problem: the text or the id of its problem.
    correct: whether the response is correct.
    reward: its reward; None if the row has none.
    sample_index: its index among the responses to the problem; None if the row has none, so that
        the order in the file decides.
    """

    problem: str
    correct: bool
    reward: float | None = None
    sample_index: int | None = None


def problem_of(row: Row, key: str) -> str:
    """The text or id of a row's problem, under this key. A number counts as an id."""
    problem = row.value(key, HINT)
    if not isinstance(problem, str | int):
        raise row.refuse(key, "text")
    return str(problem)


def correct_of(row: Row) -> bool:
    """The verdict of a row."""
    correct = row.value("correct", HINT)
    if correct not in (0, 1):  # True equals 1, and False 0
        raise row.refuse("correct", "true or false, or 1 or 0")
    return bool(correct)


def reward_of(row: Row) -> float | None:
    """The reward of a row; None if it has none."""
    if "reward" not in row.values:
        return None
    reward = row.values["reward"]
    is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not is_number or not math.isfinite(reward):
        raise row.refuse("reward", "a finite number")
    return float(reward)


def with_values(row: Row) -> Row:
    """Convert the verdict and the numbers of a row of a CSV file, whose values are all text.

    A text that cannot be converted stays as it is, and the function that reads the value refuses
    it: `correct_of`, `reward_of`, and for `sample_index` the one of `rspo.formats.scores`.
    """
    texts: Mapping[str, str] = row.values
    values: dict[str, Any] = dict(texts)
    if "correct" in texts:
        values["correct"] = _VERDICTS_IN_CSV.get(texts["correct"].lower(), texts["correct"])
    for key, number in (("reward", float), ("sample_index", int)):
        with suppress(KeyError, ValueError):  # the key is missing, or its text is no number
            values[key] = number(texts[key])
    return replace(row, values=values)
