"""`rspo prepare`: write a data set as a problems table."""

import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import ALPHABET
from rspo.config.schema import Columns, Generated, Hub
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, write_table
from rspo.datasets.generated import generate
from rspo.datasets.hub import read_rows, require_mirror
from rspo.datasets.source_row import accepted_forms, passes, problem_text, published
from rspo.formats.rows import Row, rows_of_source
from rspo.pipeline import tasks
from rspo.pipeline.run import digests_of, run
from rspo.pipeline.task import Done

_log = logging.getLogger(__name__)
_WHOLE = re.compile(r"-?[0-9]+\.0+")

Problem = dict[str, Any]  # a row of the problems table


def prepare(
    experiment: Experiment, name: str, mirror: Path | None = None, force: bool = False
) -> None:
    """Write the problems table of a data set; its provenance lists the rows that were left out."""
    data_set = experiment.data_set(name)
    task = tasks.prepare(experiment, name)
    require_mirror(mirror, experiment.data_sets.values())
    first = task.settings.get("first")

    def work() -> Done:
        own_files = [experiment.root / data_set.file] if data_set.file else []
        digests = digests_of(own_files)
        excluded = _excluded(experiment, data_set.columns.exclude, mirror)
        notes: dict[str, Any] = {}
        if data_set.generated is not None:
            problems = _generated(data_set.generated)
        elif data_set.hub is not None:
            pairs = _problems(name, data_set.hub, read_rows(data_set.hub, mirror), excluded)
            notes = _check(name, data_set.hub, f"{experiment.key_of(name)}.hub", pairs)
            problems = [problem for _, problem in pairs if problem["answers"]]
        else:
            problems = problems_of_file(experiment, name, excluded)
        write_table(task.outputs[0], PROBLEMS, problems[:first])
        sources = (f"{row['source']} @ {row['revision']}" for row in problems[:first])
        notes["sources"] = list(dict.fromkeys(sources))
        return Done(notes=notes, originals=digests)

    run(task, work, force)


def require_own_files(experiment: Experiment) -> None:
    """Read the files of the user that the config names, to find errors before anything runs."""
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


def problems_of_file(
    experiment: Experiment, name: str, excluded: Collection[str] = ()
) -> list[Problem]:
    """All problems of a data set that is a file of the user.

    Unlike a data set of the hub, whose expected content is in the config, such a file may change.
    Every row must therefore be a problem of its own with an answer.

    Args:
        excluded: normalized texts of problems to leave out.
    """
    data_set, key = experiment.data_set(name), experiment.key_of(name)
    scratch = _scratch_model(experiment, name)
    try:
        pairs = _problems(name, data_set, _rows(experiment, name), excluded)
    except (InputError, OSError) as error:
        raise InputError(f"{error} ({key})") from None
    if not pairs:
        raise InputError(f"{data_set.file}: has no rows after filter and exclude ({key})")
    first: dict[str, str] = {}  # place of each text
    for row, problem in pairs:
        text = problem["prompt"][0]["content"]
        if not problem["answers"]:
            expected = "a \\boxed{} in it" if data_set.answer_in == "box" else "an answer"
            raise InputError(f"{row.refuse(data_set.answer, expected)} ({key}.answer)")
        if text in first:
            raise InputError(
                f"{row}: {data_set.problem!r} has the same problem as "
                f"{first[text]}, {text!r:.60} ({key}.problem); expected each problem once"
            )
        first[text] = row.place
        unread = [one for one in text.replace("\\boxed{", "") if one not in ALPHABET]
        if scratch and unread:
            raise InputError(
                f"{row}: {text!r:.60} has {unread[0]!r}, which model {scratch} "
                f"cannot read; its characters are {ALPHABET!r}"
            )
    return [problem for _, problem in pairs]


def _scratch_model(experiment: Experiment, name: str) -> str | None:
    """A model that reads the data set and has the tokenizer of the tiny scale, if any."""
    of_benchmark = {
        experiment.model_of(policy)
        for policy, suite in experiment.evaluations
        if name in experiment.benchmarks_of(suite)
    }
    models = of_benchmark or {cell.model for cell in experiment.cells.values()}
    return min((model for model in models if experiment.config.models[model].scratch), default=None)


def _generated(source: Generated) -> list[Problem]:
    """Interleaved families: the first problem of each, then the second of each."""
    families = [generate(name, source.split, source.problems) for name in source.families]
    return [row for turn in zip(*families, strict=True) for row in turn]


def _rows(experiment: Experiment, name: str, mirror: Path | None = None) -> list[Row]:
    """The rows of a data set that is on the hub or in a file, unfiltered."""
    data_set = experiment.data_set(name)
    if data_set.file is None:
        assert data_set.hub is not None  # exactly one is set (schema)
        return read_rows(data_set.hub, mirror)
    return rows_of_source(experiment.root / data_set.file, data_set.file)


def _problems(
    name: str, columns: Columns, rows: Sequence[Row], excluded: Collection[str]
) -> list[tuple[Row, Problem]]:
    """The rows that pass filter and exclude, as problems. Ids count all rows of the set."""
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
    """The normalized texts of a data set, whose copies another one leaves out."""
    if name is None:
        return set()
    data_set = experiment.data_set(name)
    if data_set.generated is not None:
        prompts = (row["prompt"][0]["content"] for row in _generated(data_set.generated))
        return {_normalized(text) for text in prompts}
    columns, rows = data_set.columns, _rows(experiment, name, mirror)
    return {_normalized(problem_text(columns, row)) for row in rows if passes(columns, row)}


def _check(name: str, hub: Hub, key: str, pairs: Sequence[tuple[Row, Problem]]) -> dict[str, Any]:
    """Compare the number of rows, of rows without an answer, and the content with the config.

    Args:
        key: location of the section `hub`, such as "config/paper.yaml: data.train.hub".

    Returns: notes for the provenance.
    """
    rows, origin = len(pairs), pairs[0][0].origin if pairs else hub.id
    unanswered = [f"{row.source}, row {row.number}" for row, one in pairs if not one["answers"]]
    content = content_sha256((problem_text(hub, row), published(hub, row)) for row, _ in pairs)
    expected = hub.content_sha256.get(rows)

    def refuse(what: str, expected: object, actual: object, value: object) -> InputError:
        return InputError(
            f"{name}: expected {what} = {expected}, got {actual} from {origin}; if that is right, "
            f"set {key}.{what} = {value}"
        )

    if rows not in hub.rows:
        raise refuse("rows", " or ".join(map(str, hub.rows)), rows, rows)
    if len(unanswered) != hub.without_answer:
        found = f"{len(unanswered)} ({'; '.join(unanswered[:5])})"
        raise refuse("without_answer", hub.without_answer, found, len(unanswered))
    if expected not in (None, content):
        raise refuse("content_sha256", expected, content, f"{{{rows}: {content}}}")
    if unanswered:
        _log.warning("%s: dropped rows without an answer: %s", name, "; ".join(unanswered))
    if expected is None:
        _log.warning(
            "%s: content not checked: it has content_sha256 %s; %s.content_sha256 has no value for "
            "%d rows",
            *(name, content, key, rows),
        )
    return {"rows": rows, "rows_without_answer": unanswered, "content_sha256": content}


def content_sha256(problems: Iterable[tuple[str, Sequence[str]]]) -> str:
    """SHA-256, in hex, of (text, answers) pairs in order; the same for the hub and a copy of it.

    It is that of one line per problem: an ASCII JSON list of its text and published answers, such
    as `["What is $1+1$?", "2"]`. Unicode (NFC), whitespace, and the `.0` of a number column (142.0
    for 142) are normalized first.
    """
    digest = hashlib.sha256()
    for text, answers in problems:
        line = [_normalized(text)]
        for answer in map(_normalized, answers):
            line.append(answer.split(".")[0] if _WHOLE.fullmatch(answer) else answer)
        digest.update(json.dumps(line).encode() + b"\n")
    return digest.hexdigest()


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
