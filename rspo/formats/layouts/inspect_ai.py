"""Logs of inspect_ai: a JSON document with all samples, or a zip (.eval) with a file for each.

The epochs of a sample are responses to one problem.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rspo.formats.layout import Layout
from rspo.formats.paths import text_of
from rspo.formats.rows import Row

_ATTACHMENT = "attachment://"  # begins a reference to a long text, which `attachments` has


def samples(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """A row for each sample and epoch, with the keys `problem`, `response` and perhaps `score`."""
    prepared = [_prepared(sample) for sample in _samples(rows)]
    notes = []
    failed = sum(bool(row.values.get("error")) for row in prepared)
    if failed:
        notes.append(f"{failed} of {len(prepared)} samples ended with an error")
    scorers: dict[str, None] = {}
    for row in prepared:
        scorers.update(dict.fromkeys(row.values.get("scores") or {}))
    if len(scorers) > 1:
        options = " or ".join(f"--correct-column scores.{name}.value" for name in scorers)
        notes.append(f"{len(scorers)} scorers, whose verdicts are read with {options}")
        prepared = [_without_score(row) for row in prepared]
    return prepared, "; ".join(notes)


def _samples(rows: Iterable[Row]) -> Iterator[Row]:
    """The samples of a document, or the rows of a zip, which are samples already."""
    for row in rows:
        if "samples" not in row.values:
            yield row
            continue
        for sample in row.values["samples"] or []:
            place = f"sample {sample.get('id')}, epoch {sample.get('epoch')}"
            yield replace(row, place=place, values=sample)


def _prepared(row: Row) -> Row:
    """Add the texts of the problem and of the response, and the value of the only scorer."""
    values = dict(row.values)
    attachments = values.get("attachments") or {}
    choices = (values.get("output") or {}).get("choices") or []
    # A sample that ended with an error has no choice, and counts as a response without an answer.
    response = text_of(choices[0]["message"]) if choices else None
    values["response"] = _attached(response, attachments)
    values["problem"] = _attached(text_of(values["input"]), attachments)
    scores = values.get("scores") or {}
    if len(scores) == 1:
        (score,) = scores.values()
        values["score"] = score.get("value")
    return replace(row, values=values)


def _attached(text: Any, attachments: Mapping[str, str]) -> Any:
    """A text, or the attachment to which it refers."""
    if isinstance(text, str) and text.startswith(_ATTACHMENT):
        return attachments.get(text.removeprefix(_ATTACHMENT), text)
    return text


def _without_score(row: Row) -> Row:
    """The row without the value of a scorer that not all samples have as their only one."""
    values = {key: value for key, value in row.values.items() if key != "score"}
    return replace(row, values=values)


LAYOUT = Layout(
    name="inspect_ai",
    title="inspect_ai, `.eval` and `.json` logs",
    keys=(("eval", "samples"), ("id", "epoch", "input", "target", "output")),
    problem=("problem",),
    id=("id",),
    answer=("target",),
    response=("response",),
    correct=("score",),
    prepare=samples,
)
