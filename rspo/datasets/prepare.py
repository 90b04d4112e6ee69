"""`rspo prepare`: write a data set as a problems table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.config.schema import PROBLEM, Generated, Hub
from rspo.core.errors import InputError
from rspo.core.provenance import write_provenance
from rspo.core.tables import PROBLEMS, write_table
from rspo.datasets.answers import accepted_forms, published
from rspo.datasets.arrival import Arrival, check
from rspo.datasets.content import content_sha256
from rspo.datasets.generated import generate
from rspo.datasets.hub import SourceRow, read_rows, require_mirror
from rspo.datasets.normal_form import normal_form


def prepare(experiment: Experiment, name: str, mirror: Path | None = None) -> None:
    """Write the problems table of a data set; its provenance lists the rows that were left out.

    Args:
        name: "train", "validation" or a benchmark.
        mirror: a folder to read instead of the hub (see `rspo.datasets.hub`).

    Raises: InputError for a source that cannot be read, or differs from what the config expects.
    """
    data_set = experiment.data_set(name)
    require_mirror(mirror, experiment.data_sets.values())
    path, settings = experiment.problems(name), fingerprints.settings(experiment, "prepare", name)
    experiment.require_replaceable(path, settings)
    notes: dict[str, Any] = {}
    if data_set.generated is not None:
        problems = _generated(data_set.generated)
    else:
        assert data_set.hub is not None  # exactly one is set (schema)
        problems, notes = _from_hub(experiment, name, data_set.hub, mirror)
    write_table(path, PROBLEMS, problems)
    pairs = dict.fromkeys((row["source"], row["revision"]) for row in problems)
    notes["sources"] = [f"{source} @ {revision}" for source, revision in pairs]
    write_provenance(path, settings, notes=notes)


def _generated(generated: Generated) -> list[dict[str, Any]]:
    """Interleaved families: the first problem of each, then the second of each."""
    families = [
        generate(family, generated.split, generated.problems) for family in generated.families
    ]
    return [row for turn in zip(*families, strict=True) for row in turn]


@dataclass(frozen=True)
class _Kept:
    """A row that passed filter and exclude."""

    position: int  # among all rows of the set, so that IDs do not depend on the filter
    row: SourceRow
    text: str
    answers: list[str]


def _from_hub(
    experiment: Experiment, name: str, hub: Hub, mirror: Path | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the problems table, and notes for the provenance.

    Raises: InputError for rows that cannot be read, or differ from what the config expects.
    """
    source = read_rows(hub, mirror)
    kept = list(_kept(hub, source, _excluded(experiment, hub.exclude, mirror)))
    answered = [item for item in kept if item.answers]
    arrival = Arrival(
        rows=len(kept),
        unanswered=[f"{k.row.source}, row {k.row.row}" for k in kept if not k.answers],
        content_sha256=content_sha256((item.text, published(hub, item.row)) for item in kept),
        origin=source[0].origin,
    )
    check(arrival, hub, name, f"{experiment.key_of(name)}.hub")
    notes = {
        "rows": arrival.rows,
        "rows_without_answer": arrival.unanswered,
        "content_sha256": arrival.content_sha256,
    }
    return [_problem(name, hub, item) for item in answered], notes


def _kept(hub: Hub, rows: list[SourceRow], excluded: set[str]) -> Iterator[_Kept]:
    for position, row in enumerate(rows):
        if _passes(hub, row):
            text = problem_text(hub, row)
            if not excluded or normal_form(text) not in excluded:
                yield _Kept(position, row, text, accepted_forms(hub, row))


def _problem(name: str, hub: Hub, kept: _Kept) -> dict[str, Any]:
    """A row of the problems table."""
    content = hub.prompt.replace(PROBLEM, kept.text)
    return {
        "id": f"{name}/{kept.position}",
        "benchmark": name,
        "prompt": [{"role": "user", "content": content}],
        "answers": kept.answers,
        "source": kept.row.source,
        "revision": kept.row.revision,
        "row": kept.row.row,
    }


def problem_text(hub: Hub, row: SourceRow) -> str:
    """The problem as published, after its context.

    Raises: InputError if it is missing.
    """
    text = row.column(hub.problem)
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"{row.location}: column {hub.problem!r} is {text!r}; expected the problem's text"
        )
    context = row.column(hub.context) if hub.context else None
    return f"{context}\n\n{text}" if isinstance(context, str) and context.strip() else text


def _passes(hub: Hub, row: SourceRow) -> bool:
    return hub.filter is None or hub.filter.contains in str(row.column(hub.filter.column))


def _excluded(experiment: Experiment, name: str | None, mirror: Path | None) -> set[str]:
    """Normal forms of the problems of the data set to exclude."""
    if name is None:
        return set()
    data_set = experiment.data_set(name)
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {normal_form(text) for text in prompts}
    hub = data_set.hub
    assert hub is not None
    rows = read_rows(hub, mirror)
    return {normal_form(problem_text(hub, row)) for row in rows if _passes(hub, row)}
