"""Details of lighteval: the present structs `doc` and `model_response`, and the older columns."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rspo.formats.layout import Layout, flat
from rspo.formats.paths import parsed
from rspo.formats.rows import Row


def with_gold(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """Rows of either generation with the keys `gold` and `predictions`."""
    return _with_gold(rows), ""


def _with_gold(rows: Iterable[Row]) -> Iterator[Row]:
    """Add the answers, which are those choices whose indices are given, and the responses."""
    for row in rows:
        values: dict[str, Any] = dict(row.values)
        if "doc" in values:
            choices = values["doc"]["choices"]
            indices = flat(values["doc"]["gold_index"])
            values["gold"] = [choices[index] for index in indices]
            values["predictions"] = flat(values["model_response"]["text"])
        else:
            values["gold"] = _list_of(values["gold"])
            values["predictions"] = _list_of(values["predictions"])
        yield replace(row, values=values)


def _list_of(value: Any) -> list[Any]:
    """The items of a list that may be nested, and may be written as a text."""
    return flat(parsed(value) if isinstance(value, str) else value)


LAYOUT = Layout(
    name="lighteval",
    title="lighteval, details",
    keys=(
        ("doc.query", "doc.choices", "doc.gold_index", "model_response.text"),
        ("full_prompt", "gold", "predictions"),
    ),
    problem=("doc.query", "example", "full_prompt"),
    id=("doc.id",),
    answer=("gold",),
    response=("predictions",),
    prepare=with_gold,
)
