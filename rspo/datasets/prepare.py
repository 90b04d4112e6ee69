"""`rspo prepare`: writes a data set as a problems table."""

import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import ALPHABET, REASONING_GYM
from rspo.config.schema import Columns, Generated, Hub
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, write_table
from rspo.datasets import reasoning_gym
from rspo.datasets.generated import generate
from rspo.datasets.hub import read_rows, require_mirror
from rspo.datasets.source_row import accepted_forms, passes, problem_text, published
from rspo.formats.rows import Row, rows_of_source
from rspo.pipeline import tasks
from rspo.pipeline.run import digests_of, run
from rspo.pipeline.task import Done

_log = logging.getLogger(__name__)
_WHOLE = re.compile(r"-?[0-9]+\.0+")  # an integer that is written as a float, such as 142.0

Problem = dict[str, Any]  # a row of the problems table


def prepare(
    experiment: Experiment, name: str, mirror: Path | None = None, force: bool = False
) -> None:
    """Write the problems table of a data set.

    Its provenance lists the rows that were left out because they have no answer.

    Args:
        mirror: folder to read instead of the Hugging Face hub.
        force: replace a finished table.
    """
    data_set = experiment.data_set(name)
    task = tasks.prepare(experiment, name)
    require_mirror(mirror, experiment.data_sets.values())
    first = task.settings.get("first")  # number of problems to keep; None for all

    def work() -> Done:
        own_files = [experiment.root / data_set.file] if data_set.file else []
        # The digests come before the reading, so that a change in between is noticed.
        digests = digests_of(own_files)
        excluded = _excluded(experiment, data_set.columns.exclude, mirror)
        notes: dict[str, Any] = {}
        if data_set.generated is not None:
            problems = _generated(data_set.generated)
        elif data_set.reasoning_gym is not None:
            problems, content = reasoning_gym.rows_of(experiment, data_set.reasoning_gym)
            notes = {"reasoning_gym": REASONING_GYM, "content_sha256": content}
        elif data_set.hub is not None:
            pairs = _problems(name, data_set.hub, read_rows(data_set.hub, mirror), excluded)
            notes = _check(name, data_set.hub, f"{experiment.key_of(name)}.hub", pairs)
            problems = [problem for _, problem in pairs if problem["answers"]]
        else:
            problems = problems_of_file(experiment, name, excluded)
        problems = problems[:first]
        write_table(task.outputs[0], PROBLEMS, problems)
        sources = [f"{row['source']} @ {row['revision']}" for row in problems]
        notes["sources"] = list(dict.fromkeys(sources))  # each once, in this order
        return Done(notes=notes, originals=digests)

    run(task, work, force)


def require_own_files(experiment: Experiment) -> None:
    """Read the data sets that are files of the user, to find errors before anything runs.

    Raises: InputError for a file that cannot be used, or with fewer problems than training needs.
    """
    training = experiment.config.training
    # Data set -> the setting that says how many problems it needs, and its value.
    needed = {"train": ("training.prompts_per_step", training.prompts_per_step)}
    if training.validation.every:
        needed["validation"] = ("training.validation.problems", training.validation.problems)
    for name, data_set in experiment.data_sets.items():
        if data_set.file is not None:
            count = len(problems_of_file(experiment, name))
            setting, least = needed.get(name, ("", 1))
            if count < least:
                raise InputError(
                    f"{experiment.root / data_set.file}: has {count} problems, fewer than "
                    f"{setting} = {least} ({experiment.key_of(name)}.file)"
                )


def problems_of_file(
    experiment: Experiment, name: str, excluded: Collection[str] = ()
) -> list[Problem]:
    """Read all problems of a data set that is a file of the user.

    The config states the expected content of a data set of the hub, but not that of a file.
    Therefore every row of a file must be a different problem with an answer.

    Args:
        excluded: normalized texts of problems to leave out.

    Raises: InputError that names the row and the key of the config.
    """
    data_set = experiment.data_set(name)
    key = experiment.key_of(name)
    scratch = _scratch_model(experiment, name)
    try:
        pairs = _problems(name, data_set, _rows(experiment, name), excluded)
    except (InputError, OSError) as error:
        raise InputError(f"{error} ({key})") from None
    if not pairs:
        raise InputError(f"{data_set.file}: has no rows after filter and exclude ({key})")
    places: dict[str, str] = {}  # the place of each problem so far, by its text
    for row, problem in pairs:
        text = problem["prompt"][0]["content"]
        if not problem["answers"]:
            expected = "a \\boxed{} in it" if data_set.answer_in == "box" else "an answer"
            raise InputError(f"{row.refuse(data_set.answer, expected)} ({key}.answer)")
        if text in places:
            raise InputError(
                f"{row}: {data_set.problem!r} has the same problem as "
                f"{places[text]}, {text!r:.60} ({key}.problem); expected each problem once"
            )
        places[text] = row.place
        characters = text.replace("\\boxed{", "")  # one token of the tiny scale's tokenizer
        unknown = [character for character in characters if character not in ALPHABET]
        if scratch and unknown:
            raise InputError(
                f"{row}: {text!r:.60} has {unknown[0]!r}, which model {scratch} "
                f"cannot read; its characters are {ALPHABET!r}"
            )
    return [problem for _, problem in pairs]


def _scratch_model(experiment: Experiment, name: str) -> str | None:
    """The name of a model that is trained from scratch and reads the data set; None without one.

    Such a model has the tokenizer of the tiny scale, which has few characters.
    """
    models = set()
    for policy, suite in experiment.evaluations:
        if name in experiment.benchmarks_of(suite):
            models.add(experiment.model_of(policy))
    if not models:  # not a benchmark, so the models of all cells read it in training
        models = {cell.model for cell in experiment.cells.values()}
    return min((model for model in models if experiment.config.models[model].scratch), default=None)


def _generated(source: Generated) -> list[Problem]:
    """Problems of several families in turn: the first of each family, then the second of each."""
    families = [generate(name, source.split, source.problems) for name in source.families]
    return list(chain.from_iterable(zip(*families, strict=True)))


def _rows(experiment: Experiment, name: str, mirror: Path | None = None) -> list[Row]:
    """The rows of a data set that is on the hub or in a file, unfiltered."""
    data_set = experiment.data_set(name)
    if data_set.file is None:
        # A data set has exactly one of `generated`, `hub` and `file` (schema), and no caller passes
        # a generated one.
        assert data_set.hub is not None
        return read_rows(data_set.hub, mirror)
    return rows_of_source(experiment.root / data_set.file, data_set.file)


def _problems(
    name: str, columns: Columns, rows: Sequence[Row], excluded: Collection[str]
) -> list[tuple[Row, Problem]]:
    """The rows that pass filter and exclude, each with its problem.

    The number in the id of a problem is the index of its row among all rows of the data set,
    including those that do not pass.
    """
    pairs = []
    for position, row in enumerate(rows):
        if not passes(columns, row):
            continue
        text = problem_text(columns, row)
        if excluded and _normalized(text) in excluded:
            continue
        problem = {
            "id": f"{name}/{position}",
            "benchmark": name,
            "prompt": [{"role": "user", "content": text}],
            "answers": accepted_forms(columns, row),
            "source": row.source,
            "revision": row.revision,
            "row": row.number,
        }
        pairs.append((row, problem))
    return pairs


def _excluded(experiment: Experiment, name: str | None, mirror: Path | None) -> set[str]:
    """The normalized texts of the problems to leave out of a data set.

    Args:
        name: the data set whose problems these are, which the config names under `exclude`; None if
            nothing is left out.
    """
    if name is None:
        return set()
    data_set = experiment.data_set(name)
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {_normalized(text) for text in prompts}
    if data_set.reasoning_gym is not None:
        made, _ = reasoning_gym.rows_of(experiment, data_set.reasoning_gym)
        return {_normalized(row["prompt"][0]["content"]) for row in made}
    columns = data_set.columns
    rows = _rows(experiment, name, mirror)
    return {_normalized(problem_text(columns, row)) for row in rows if passes(columns, row)}


def _check(name: str, hub: Hub, key: str, pairs: Sequence[tuple[Row, Problem]]) -> dict[str, Any]:
    """Compare a data set of the hub with what the config expects.

    The config has the numbers of rows that are allowed, the number of rows without an answer, and
    for some numbers of rows a digest of the content.

    Args:
        key: location of the section `hub`, such as "config/paper.yaml: data.train.hub".

    Returns: notes for the provenance.

    Raises: InputError for the first of these that differs.
    """
    rows = len(pairs)
    origin = pairs[0][0].origin if pairs else hub.id
    unanswered = []
    for row, problem in pairs:
        if not problem["answers"]:
            unanswered.append(f"{row.source}, row {row.number}")
    content = content_sha256((problem_text(hub, row), published(hub, row)) for row, _ in pairs)
    expected = hub.content_sha256.get(rows)  # None if the config has no digest for this number

    def refuse(what: str, expected: object, actual: object, value: object) -> InputError:
        """The error for a key `what` of the config; `value` is what to set it to."""
        return InputError(
            f"{name}: expected {what} = {expected}, got {actual} from {origin}; if that is right, "
            f"set {key}.{what} = {value}"
        )

    if rows not in hub.rows:
        raise refuse("rows", " or ".join(map(str, hub.rows)), rows, rows)
    if len(unanswered) != hub.without_answer:
        count = f"{len(unanswered)} ({'; '.join(unanswered[:5])})"
        raise refuse("without_answer", hub.without_answer, count, len(unanswered))
    if expected not in (None, content):
        raise refuse("content_sha256", expected, content, f"{{{rows}: {content}}}")
    # What the config allows is still worth a warning.
    if unanswered:
        _log.warning("%s: dropped rows without an answer: %s", name, "; ".join(unanswered))
    if expected is None:
        _log.warning(
            "%s: content not checked: it has content_sha256 %s; %s.content_sha256 has no value for "
            "%d rows",
            name,
            content,
            key,
            rows,
        )
    return {"rows": rows, "rows_without_answer": unanswered, "content_sha256": content}


def content_sha256(problems: Iterable[tuple[str, Sequence[str]]]) -> str:
    """SHA-256, in hex, of problems and their answers in order.

    The digest is the same for the hub and for a copy of the data set in another file format. It
    covers one line per problem: an ASCII JSON list of the text and the published answers, such as
    `["What is $1+1$?", "2"]`. Unicode (NFC), whitespace, and the `.0` of a number column (142.0 for
    142) are normalized first.

    Args:
        problems: the text and the answers of each problem.
    """
    digest = hashlib.sha256()
    for text, answers in problems:
        line = [_normalized(text)]
        for answer in answers:
            written = _normalized(answer)
            if _WHOLE.fullmatch(written):
                written = written.split(".")[0]
            line.append(written)
        digest.update(json.dumps(line).encode() + b"\n")
    return digest.hexdigest()


def _normalized(text: str) -> str:
    """A text in Unicode's form NFC, with each run of whitespace as one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())
