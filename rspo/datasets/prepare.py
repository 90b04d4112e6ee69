"""`rspo prepare`: write a data set as a problems table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.names import ALPHABET
from rspo.config.schema import PROBLEM, Columns, DataSet, Generated, Hub
from rspo.core.errors import InputError
from rspo.core.provenance import Done
from rspo.core.tables import PROBLEMS, write_table
from rspo.datasets.answers import accepted_forms, published
from rspo.datasets.arrival import Arrival, check
from rspo.datasets.content import content_sha256
from rspo.datasets.generated import generate
from rspo.datasets.hub import read_rows, require_mirror
from rspo.datasets.normal_form import normal_form
from rspo.datasets.own_file import read_own_file
from rspo.datasets.source_row import SourceRow


def prepare(
    experiment: Experiment, name: str, mirror: Path | None = None, force: bool = False
) -> None:
    """Write the problems table of a data set; its provenance lists the rows that were left out.

    Args:
        name: "train", "validation" or a benchmark.
        mirror: a folder to read instead of the hub (see `rspo.datasets.hub`).

    Raises: InputError for a source that cannot be read, or differs from what the config expects.
    """
    source, first = _source_of(experiment, name, mirror), experiment.first_problems_of(name)
    require_mirror(mirror, experiment.data_sets.values())
    step = steps.prepare(experiment, name)

    def work() -> Done:
        problems, notes = _problems(source)
        write_table(step.outputs[0], PROBLEMS, problems[:first])
        pairs = dict.fromkeys((row["source"], row["revision"]) for row in problems[:first])
        notes["sources"] = [f"{source} @ {revision}" for source, revision in pairs]
        return Done(notes=notes, originals=[source.path] if source.data_set.file else [])

    step.run(work, force)


def require_own_files(experiment: Experiment) -> None:
    """Read the files of the user that the config names, to find errors before anything runs.

    Raises: InputError for a file, or a row of it, that `prepare` would refuse; and for a file with
        fewer problems than a step of training, or a validation, needs.
    """
    training = experiment.config.training
    needed = {"train": ("training.prompts_per_step", training.prompts_per_step)}
    if training.validation.every:
        needed["validation"] = ("training.validation.problems", training.validation.problems)
    for name, data_set in experiment.data_sets.items():
        if data_set.file is not None:
            found = len(problems_of_file(experiment, name))
            setting, least = needed.get(name, ("", 1))
            if found < least:
                raise InputError(
                    f"{experiment.root / data_set.file}: has {found} problems, fewer than "
                    f"{setting} = {least} ({experiment.key_of(name)}.file)"
                )


def problems_of_file(experiment: Experiment, name: str) -> list[dict[str, Any]]:
    """All problems of a data set that is a file of the user, without `exclude`.

    Raises: InputError as `_from_file`.
    """
    return _from_file(_source_of(experiment, name), excluded=())


@dataclass(frozen=True)
class _Source:
    """Where the problems of a data set come from.

    key: its location in the config, for messages.
    path: of the user's file, if it is one.
    mirror: a folder to read instead of the hub.
    excluded: the data set whose problems are left out.
    scratch: a model that reads the data set and has the tokenizer of the tiny scale, if any.
    """

    name: str
    data_set: DataSet
    key: str
    path: Path
    mirror: Path | None
    excluded: "_Source | None"
    scratch: str | None


def _source_of(experiment: Experiment, name: str, mirror: Path | None = None) -> _Source:
    """Raises: InputError for a data set that the config lacks."""
    data_set, excluded = experiment.data_set(name), experiment.data_set(name).columns.exclude
    of_benchmark = {
        experiment.model_of(policy)
        for policy, suite in experiment.evaluations
        if name in experiment.benchmarks_of(suite)
    }
    models = of_benchmark or {cell.model for cell in experiment.cells.values()}
    scratch = sorted(model for model in models if experiment.config.models[model].scratch)
    return _Source(
        name,
        data_set,
        experiment.key_of(name),
        experiment.root / (data_set.file or ""),
        mirror,
        None if excluded is None else _source_of(experiment, excluded, mirror),
        next(iter(scratch), None),
    )


def _problems(source: _Source) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the problems table, and notes for the provenance."""
    data_set = source.data_set
    if data_set.generated is not None:
        return _generated(data_set.generated), {}
    excluded = set() if source.excluded is None else _normal_forms(source.excluded)
    if data_set.hub is not None:
        return _from_hub(source, data_set.hub, excluded)
    return _from_file(source, excluded), {}


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
    source: _Source, hub: Hub, excluded: Collection[str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the problems table, and notes for the provenance.

    Args:
        excluded: normal forms of problems to leave out.

    Raises: InputError for rows that cannot be read, or differ from what the config expects.
    """
    rows = _rows(source)
    kept = list(_kept(hub, rows, excluded))
    answered = [item for item in kept if item.answers]
    arrival = Arrival(
        rows=len(kept),
        unanswered=[f"{k.row.source}, row {k.row.row}" for k in kept if not k.answers],
        content_sha256=content_sha256((item.text, published(hub, item.row)) for item in kept),
        origin=rows[0].origin,
    )
    check(arrival, hub, source.name, f"{source.key}.hub")
    notes = {
        "rows": arrival.rows,
        "rows_without_answer": arrival.unanswered,
        "content_sha256": arrival.content_sha256,
    }
    return [_problem(source.name, hub, item) for item in answered], notes


def _from_file(source: _Source, excluded: Collection[str]) -> list[dict[str, Any]]:
    """Rows of the problems table of a data set that is a file of the user.

    Args:
        excluded: normal forms of problems to leave out.

    Raises: InputError that names file, key and value, for a file that cannot be read, and for a row
        that is not a problem of its own with an answer.
    """
    data_set, key = source.data_set, source.key
    rows = _rows(source)
    try:
        kept = list(_kept(data_set, rows, excluded))
    except InputError as error:
        raise InputError(f"{error} ({key})") from None
    if not kept:
        raise InputError(
            f"{source.path}: filter and exclude leave no problem of {key}; expected some"
        )
    first: dict[str, str] = {}
    for item in kept:
        if not item.answers:
            column, value = data_set.answer, item.row.column(data_set.answer)
            raise InputError(
                f"{item.row.location}: column {column!r} is {value!r} ({key}.answer); expected "
                + ("a \\boxed{} in it" if data_set.answer_in == "box" else "an answer")
            )
        if before := first.get(item.text):
            raise InputError(
                f"{item.row.location}: column {data_set.problem!r} has the same problem as "
                f"{before}, {item.text!r:.60} ({key}.problem); expected each problem once"
            )
        first[item.text] = item.row.place
    problems = [_problem(source.name, data_set, item) for item in kept]
    if source.scratch:
        for item, problem in zip(kept, problems, strict=True):
            _require_alphabet(source.scratch, item.row.location, problem["prompt"])
    return problems


def _require_alphabet(model: str, location: str, prompt: Sequence[Mapping[str, str]]) -> None:
    """Raises: InputError for a character that the tokenizer of the tiny scale does not have."""
    text = "".join(message["content"] for message in prompt)
    for character in text.replace("\\boxed{", ""):
        if character not in ALPHABET:
            raise InputError(
                f"{location}: {text!r:.60} has {character!r}, which model {model} cannot read; "
                f"its characters are {ALPHABET!r}"
            )


def _rows(source: _Source) -> list[SourceRow]:
    """The rows of a data set that is on the hub or in a file, unfiltered."""
    data_set = source.data_set
    if data_set.file is None:
        assert data_set.hub is not None  # exactly one is set (schema)
        return read_rows(data_set.hub, source.mirror)
    return read_own_file(source.path, data_set.file, data_set, source.key)


def _kept(columns: Columns, rows: list[SourceRow], excluded: Collection[str]) -> Iterator[_Kept]:
    for position, row in enumerate(rows):
        if _passes(columns, row):
            text = problem_text(columns, row)
            if not excluded or normal_form(text) not in excluded:
                yield _Kept(position, row, text, accepted_forms(columns, row))


def _problem(name: str, columns: Columns, kept: _Kept) -> dict[str, Any]:
    """A row of the problems table."""
    content = columns.prompt.replace(PROBLEM, kept.text)
    return {
        "id": f"{name}/{kept.position}",
        "benchmark": name,
        "prompt": [{"role": "user", "content": content}],
        "answers": kept.answers,
        "source": kept.row.source,
        "revision": kept.row.revision,
        "row": kept.row.row,
    }


def problem_text(columns: Columns, row: SourceRow) -> str:
    """The problem as published, after its context.

    Raises: InputError if it is missing.
    """
    text = row.column(columns.problem)
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"{row.location}: column {columns.problem!r} is {text!r}; expected the problem's text"
        )
    context = row.column(columns.context) if columns.context else None
    return f"{context}\n\n{text}" if isinstance(context, str) and context.strip() else text


def _passes(columns: Columns, row: SourceRow) -> bool:
    return columns.filter is None or columns.filter.contains in str(
        row.column(columns.filter.column)
    )


def _normal_forms(source: _Source) -> set[str]:
    """Normal forms of the problems of a data set."""
    data_set = source.data_set
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {normal_form(text) for text in prompts}
    columns, rows = data_set.columns, _rows(source)
    return {normal_form(problem_text(columns, row)) for row in rows if _passes(columns, row)}
