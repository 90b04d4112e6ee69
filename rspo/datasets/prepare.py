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
    data_set = experiment.data_set(name)
    require_mirror(mirror, experiment.data_sets.values())
    step = steps.prepare(experiment, name)
    if not step.is_due(force):
        return
    problems, notes = _problems(experiment, name, data_set, mirror)
    problems = problems[: experiment.first_problems_of(name)]
    write_table(experiment.problems(name), PROBLEMS, problems)
    pairs = dict.fromkeys((row["source"], row["revision"]) for row in problems)
    notes["sources"] = [f"{source} @ {revision}" for source, revision in pairs]
    files = [experiment.root / data_set.file] if data_set.file is not None else []
    step.record(notes=notes, originals=files)


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


def _problems(
    experiment: Experiment, name: str, data_set: DataSet, mirror: Path | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the problems table, and notes for the provenance."""
    if data_set.generated is not None:
        return _generated(data_set.generated), {}
    if data_set.hub is not None:
        return _from_hub(experiment, name, data_set.hub, mirror)
    return problems_of_file(experiment, name, _excluded(experiment, data_set.exclude, mirror)), {}


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
    source = _rows(experiment, name, mirror)
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


def problems_of_file(
    experiment: Experiment, name: str, excluded: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Rows of the problems table of a data set that is a file of the user.

    Args:
        excluded: normal forms of problems to leave out.

    Raises: InputError that names file, key and value, for a file that cannot be read, and for a row
        that is not a problem of its own with an answer.
    """
    data_set, key = experiment.data_set(name), experiment.key_of(name)
    rows = _rows(experiment, name, None)
    try:
        kept = list(_kept(data_set, rows, excluded))
    except InputError as error:
        raise InputError(f"{error} ({key})") from None
    if not kept:
        path = experiment.root / str(data_set.file)
        raise InputError(f"{path}: filter and exclude leave no problem of {key}; expected some")
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
    problems = [_problem(name, data_set, item) for item in kept]
    if scratch := sorted(_models_from_scratch(experiment, name)):
        for item, problem in zip(kept, problems, strict=True):
            _require_alphabet(scratch[0], item.row.location, problem["prompt"])
    return problems


def _models_from_scratch(experiment: Experiment, name: str) -> set[str]:
    """The models that read a data set and have the tokenizer of the tiny scale."""
    of_benchmark = {
        experiment.model_of(policy)
        for policy, suite in experiment.evaluations
        if name in experiment.benchmarks_of(suite)
    }
    used = of_benchmark or {cell.model for cell in experiment.cells.values()}
    return {model for model in used if experiment.config.models[model].scratch}


def _require_alphabet(model: str, location: str, prompt: Sequence[Mapping[str, str]]) -> None:
    """Raises: InputError for a character that the tokenizer of the tiny scale does not have."""
    text = "".join(message["content"] for message in prompt)
    for character in text.replace("\\boxed{", ""):
        if character not in ALPHABET:
            raise InputError(
                f"{location}: {text!r:.60} has {character!r}, which model {model} cannot read; "
                f"its characters are {ALPHABET!r}"
            )


def _rows(experiment: Experiment, name: str, mirror: Path | None) -> list[SourceRow]:
    """The rows of a data set that is on the hub or in a file, unfiltered."""
    data_set = experiment.data_set(name)
    if data_set.file is None:
        assert data_set.hub is not None  # exactly one is set (schema)
        return read_rows(data_set.hub, mirror)
    path = experiment.root / data_set.file
    return read_own_file(path, data_set.file, data_set, experiment.key_of(name))


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


def _excluded(experiment: Experiment, name: str | None, mirror: Path | None) -> set[str]:
    """Normal forms of the problems of the data set to exclude."""
    if name is None:
        return set()
    data_set = experiment.data_set(name)
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {normal_form(text) for text in prompts}
    columns, rows = data_set.columns, _rows(experiment, name, mirror)
    return {normal_form(problem_text(columns, row)) for row in rows if _passes(columns, row)}
