"""`rspo prepare`: one set of problems, wherever it comes from, as a problems table."""

import logging
import math
from pathlib import Path
from typing import Any

from rspo.config import Generated, Hub
from rspo.datasets.generated import generate
from rspo.datasets.hub import SourceRow, read_rows
from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.files import write_provenance
from rspo.rewards.extraction import last_box
from rspo.tables import PROBLEMS, write_table

# Text that some sets (OlympiadBench) give apart from the question that it belongs to.
_CONTEXT = "context"

_log = logging.getLogger(__name__)


def prepare(experiment: Experiment, name: str, mirror: Path | None = None) -> None:
    """Write the problems of a data set, and beside them which rows were left out.

    Args:
        name: "train", "validation" or a benchmark.
        mirror: a folder to read instead of the hub (see `rspo.datasets.hub`).

    Raises: InputError for a source that cannot be read or has not the rows that the config
        expects.
    """
    data_set = experiment.data_set(name)
    notes: dict[str, Any] = {}
    if data_set.generated is not None:
        problems = _generated(data_set.generated)
    else:
        assert data_set.hub is not None  # one of the two, by the config's check
        excluded = _texts(experiment, data_set.hub.exclude, mirror)
        problems, dropped = _from_hub(name, data_set.hub, read_rows(data_set.hub, mirror), excluded)
        notes["rows_without_answer"] = dropped
    path = experiment.problems(name)
    write_table(path, PROBLEMS, problems)
    write_provenance(path, experiment.settings("prepare", name), notes=notes)


def _generated(generated: Generated) -> list[dict[str, Any]]:
    """Families in turn: the first of each, then the second of each."""
    families = [
        generate(family, generated.split, generated.problems) for family in generated.families
    ]
    return [row for turn in zip(*families, strict=True) for row in turn]


# --- hub ------------------------------------------------------------------------------------------


def _from_hub(
    name: str, hub: Hub, rows: list[SourceRow], excluded: set[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the problems table, and the places of the rows that have no answer."""
    kept = [
        (position, row)
        for position, row in enumerate(rows)
        if _passes(hub, row) and _normalized(problem_text(hub, row)) not in excluded
    ]
    if len(kept) not in hub.accepted_rows:
        came = f"{len(kept)}" + (f" of {len(rows)}" if len(kept) < len(rows) else "")
        expected = " or ".join(str(count) for count in hub.accepted_rows)
        raise InputError(f"{name}: expected {expected} rows, {came} came from {rows[0].origin}")
    answers = [(position, row, _answers(hub, row)) for position, row in kept]
    dropped = [f"{row.source}, row {row.row}" for _, row, forms in answers if not forms]
    if len(dropped) != hub.without_answer:
        raise InputError(
            f"{name}: expected {hub.without_answer} rows without an answer, {len(dropped)} came"
            + "".join(f"; {place}" for place in dropped[:5])
        )
    if dropped:
        _log.warning("%s: left out, having no answer: %s", name, "; ".join(dropped))
    problems = [
        {
            "id": f"{name}/{position}",
            "benchmark": name,
            "prompt": [{"role": "user", "content": problem_text(hub, row)}],
            "answers": forms,
            "source": row.source,
            "revision": row.revision,
            "row": row.row,
        }
        for position, row, forms in answers
        if forms
    ]
    return problems, dropped


def _passes(hub: Hub, row: SourceRow) -> bool:
    return hub.filter is None or hub.filter.contains in str(row.column(hub.filter.column))


def problem_text(hub: Hub, row: SourceRow) -> str:
    """The problem as its publisher wrote it, its context in front.

    Raises: InputError if there is none.
    """
    text = row.column(hub.problem)
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"{row.place}: column {hub.problem!r} is {text!r}; a problem's text is needed"
        )
    context = row.columns.get(_CONTEXT)
    return f"{context}\n\n{text}" if isinstance(context, str) and context.strip() else text


def _texts(experiment: Experiment, name: str | None, mirror: Path | None) -> set[str]:
    """Normalized problems of the set that another one excludes."""
    if name is None:
        return set()
    data_set = experiment.data_set(name)
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {_normalized(text) for text in prompts}
    hub = data_set.hub
    assert hub is not None
    rows = read_rows(hub, mirror)
    return {_normalized(problem_text(hub, row)) for row in rows if _passes(hub, row)}


def _normalized(text: str) -> str:
    """Without spaces: copies of a problem differ in those and in nothing else."""
    return "".join(text.split())


# --- answers --------------------------------------------------------------------------------------


def _answers(hub: Hub, row: SourceRow) -> list[str]:
    """Accepted forms of a row's answer; none if it has no answer."""
    value = row.column(hub.answer)
    if hub.answer_in == "box":
        if not isinstance(value, str):
            raise InputError(f"{row.place}: column {hub.answer!r} is {value!r}; expected text")
        value = last_box(value)
    values = value if isinstance(value, list) else [value]
    return [form for item in values if (form := _written(item, hub.answer, row)) is not None]


def _written(value: Any, column: str, row: SourceRow) -> str | None:
    """One form of an answer as text: `142.0` as `142`, everything else as it stands.

    Leading zeros (`025`), units, degrees and dollar signs stay: what they mean is for a verifier
    to say. Returns None for nothing: null, NaN, or only spaces.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value.strip() or None
    raise InputError(
        f"{row.place}: column {column!r} has {value!r}; allowed: text, numbers, or a list of them"
    )
