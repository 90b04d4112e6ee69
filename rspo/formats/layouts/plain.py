"""Rows of the user's own: those that `rspo verify` and `rspo compare` document."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from rspo.formats.layout import Layout
from rspo.formats.paths import has, is_chat
from rspo.formats.rows import DOCUMENT, Row

_PROBLEM = ("problem", "problem_id")


def rows_within(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """The rows, or those of the only list of objects in a document, such as {"results": [...]}."""
    rows = iter(rows)
    first = next(rows)
    everything = chain([first], rows)
    if first.place != DOCUMENT or any(has(first.values, path) for path in _PROBLEM):
        return everything, ""
    lists = [key for key, value in first.values.items() if _is_table(value)]
    if len(lists) != 1:
        return everything, ""
    (key,) = lists
    inner = [
        replace(first, place=f"item {number} of {key}", values=dict(values))
        for number, values in enumerate(first.values[key], start=1)
    ]
    return inner, f"the rows are those of {key!r}"


def _is_table(value: Any) -> bool:
    """Whether a value is a list of objects that is no conversation."""
    if not isinstance(value, list) or not value or is_chat(value):
        return False
    return all(isinstance(item, Mapping) for item in value)


LAYOUT = Layout(
    name="plain",
    title="rows of your own, with the keys that the options name",
    keys=(("problem", "answer", "response"), ("problem", "correct"), ("problem_id", "correct")),
    problem=_PROBLEM,
    id=(
        "id",
        "problem_id",
        "question_id",
        "example_id",
        "task_id",
        "doc_id",
        "custom_id",
        "idx",
        "index",
    ),
    answer=("answer",),
    response=("response",),
    correct=("correct",),
    reward=("reward",),
    prepare=rows_within,
)
