"""What the layouts `verdicts` and `scores` have of a response, and the checks of its values."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rspo.formats.rows import Row

HINT = " (`rspo verify` makes a file with verdicts from responses)"
_VERDICTS_IN_CSV = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class VerifiedResponse:
    """The verdict on a response.

    problem: its text or its id.
    reward: None if the row has none.
    sample_index: place among the responses to the problem; None for that in the file.
    """

    problem: str
    correct: bool
    reward: float | None = None
    sample_index: int | None = None


def problem_of(row: Row, key: str) -> str:
    problem = row.value(key, HINT)
    if not isinstance(problem, str | int):
        raise row.refuse(key, "text")
    return str(problem)


def correct_of(row: Row) -> bool:
    correct = row.value("correct", HINT)
    if correct not in (0, 1):
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
    """A row of a CSV file, which has text only, with its verdict and numbers as values.

    What is neither stays text, which the checks refuse.
    """
    text: Mapping[str, str] = row.values
    values: dict[str, Any] = dict(text)
    if "correct" in text:
        values["correct"] = _VERDICTS_IN_CSV.get(text["correct"].lower(), text["correct"])
    for key, number in (("reward", float), ("sample_index", int)):
        with suppress(KeyError, ValueError):
            values[key] = number(text[key])
    return replace(row, values=values)
