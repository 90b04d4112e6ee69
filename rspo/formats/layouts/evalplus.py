"""Results of evalplus: a document with the status of each program on two sets of tests."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rspo.formats.layout import Layout
from rspo.formats.rows import Row

_PASS = "pass"


def programs(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """A row for each program; it is correct if it passed all tests that were run."""
    programs = list(_programs(rows))
    note = ""
    if any(row.values.get("plus_status") for row in programs):
        note = "passed: the base and the plus tests; base alone: --correct-column base_status"
    return programs, note


def _programs(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of the programs of each task, from a list of objects or from the older lists."""
    for document in rows:
        for task, results in document.values["eval"].items():
            for number, result in enumerate(_results(results)):
                statuses = [result.get("base_status"), result.get("plus_status")]
                passed = all(status == _PASS for status in statuses if status is not None)
                values = dict(result) | {"task_id": task, "passed": passed}
                yield replace(document, place=f"{task}, program {number}", values=values)


def _results(results: Any) -> list[Mapping[str, Any]]:
    """The results of a task, as objects with `base_status` and perhaps `plus_status`."""
    if isinstance(results, list):
        return results
    base = results["base"]  # before version 0.2: lists of [status, details]
    plus = results.get("plus") or [(None,)] * len(base)
    return [
        {"base_status": first[0], "plus_status": second[0]}
        for first, second in zip(base, plus, strict=True)
    ]


LAYOUT = Layout(
    name="evalplus",
    title="evalplus, `*_eval_results.json`",
    keys=(("eval", "hash"), ("eval", "date")),
    problem=("task_id",),
    response=("solution",),
    correct=("passed",),
    prepare=programs,
)
