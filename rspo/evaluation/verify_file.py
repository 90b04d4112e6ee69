"""`rspo verify`: verify the responses in a file, and estimate their Pass@k."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.names import BOX_ONLY
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, require_name
from rspo.core.files import atomic_write, require_output
from rspo.evaluation.agreement import agreement_of_rows, differing, differing_lines
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import accuracy, chosen_ks, pass_at_k_table, sizes
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.score import verdict_counts, verified
from rspo.evaluation.verify_notes import notes
from rspo.formats.checks import (
    READ_ANSWERS,
    no_answer_warning,
    none_correct_warning,
    problem_warnings,
    text_warnings,
)
from rspo.formats.responses import Response, read_responses
from rspo.formats.source import Reading, all_files, without_verdicts
from rspo.formats.verdicts import verdict_row
from rspo.pipeline.run import digests_of, require_replaceable, run
from rspo.pipeline.task import Done, Task
from rspo.pipeline.tasks import Input, judge_inputs, lock_of, verifier_settings
from rspo.rewards import Verdict, places_named
from rspo.rewards.configured import verifier_of
from rspo.rewards.verdict import NO_ANSWER

# The columns that decide what is read, with their defaults; the settings of verdicts have them.
_COLUMNS = {"problem": "problem", "answer": "answer", "response": "response"}


def verify_file(
    paths: Path | Sequence[Path],
    output: Path | None = None,
    verifier: str = "rules",
    reading: Reading = Reading(),  # noqa: B008
    ks: Sequence[int] | None = None,
    experiment: Experiment | None = None,
    replace: bool = True,
    extract: str | Sequence[str] | None = None,
) -> str:
    """Verify the responses of a run and write a row for each, in the order of its files.

    Args:
        paths: a file or several, in any layout of `rspo.formats`.
        output: JSON lines to write; default: beside the first file, with the suffix
            `.verdicts.jsonl`; the name of several files is what their names have in common.
        verifier: a name, or several with commas between them. The first one decides, and the lines
            say where the others differ from it.
        reading: what the user states about the files.
        ks: default: the powers of two up to the smallest number of responses.
        experiment: has the settings of a judge model; only the verifier xverify needs it.
        replace: whether to replace an output that was made with other settings, or from another
            file.
        extract: where the answer may stand in a response, see `rspo.rewards.verify`; default: as
            the config of the experiment says, or the last box.

    Returns: counts, accuracy and Pass@k with errors, as lines to print.
    """
    named = all_files([paths] if isinstance(paths, Path) else paths)
    files, left_out = without_verdicts(named)
    output = output or files[0].parent / f"{_common_name(files)}.verdicts.jsonl"
    require_output(output, ".jsonl")
    for path in files:
        if path.exists() and output.exists() and path.samefile(output):
            raise InputError(f"{output} has the responses; name another output")
    config = experiment.config if experiment else None
    names = names_of_verifiers(verifier)
    places = places_named(extract, names) or (config.extract if config else BOX_ONLY)
    deciding_settings = verifier_settings(config, names[0], places)
    if len(names) > 1:
        settings_of_others = [verifier_settings(config, name, places) for name in names[1:]]
        deciding_settings["also"] = settings_of_others
    task = Task(
        (output,),
        deciding_settings | _settings_of(files, reading),
        lambda: [file for name in names for file in _judge_inputs(experiment, name)],
        lock_of(output),
    )
    # Before the files are read, so that a change after this shows.
    digests = digests_of(files + ([reading.answers] if reading.answers else []))
    responses, notes_of_files = read_responses(files, reading)
    responses_by_problem = Counter(response.problem for response in responses)
    ks = chosen_ks(np.array(list(responses_by_problem.values())), ks)
    if not replace:  # after the checks of the arguments, which also apply with --force
        require_replaceable(task)
    by_verifier: dict[str, list[Verdict]] = {}
    # A run that was killed may have had more verifiers than this one.
    journals = [journal_of(output)]
    journals += [journal_of(_table_of_other(name, output)) for name in verifier_names()]

    def work() -> Done:
        stored = output.with_suffix(".judge.jsonl")
        for name in names:
            table = output if name == names[0] else _table_of_other(name, output)
            settings = verifier_settings(config, name, places)
            with verifier_of(experiment, name, stored, extract=places) as verify:
                by_verifier[name] = verified(table, responses, verify, settings)
        _write_verdicts(output, responses, by_verifier, places)
        counts = {"verdicts": verdict_counts(by_verifier[names[0]])}
        return Done(notes=counts, originals=digests, clean_up=partial(_remove, journals))

    run(task, work, force=True)  # `require_replaceable` has refused what it must not replace
    outcomes = read_outcomes(output)
    verdicts = by_verifier[names[0]]
    reasons = Counter(verdict.reason for verdict in verdicts)
    lines = left_out + notes_of_files + list(_counts(outcomes, reasons, names[0]))
    lines.extend(notes(responses, verdicts, names[0], places))
    correct = [verdict.correct for verdict in verdicts]
    lines.extend(_agreement(responses, correct, names[0]))
    for other in names[1:]:
        lines.extend(_difference(responses, by_verifier, names[0], other))
    lines.extend(_warnings(responses, verdicts, names[0], places))
    lines.append("")
    lines.extend(pass_at_k_table(outcomes, ks))
    return "\n".join(lines)


def names_of_verifiers(text: str) -> list[str]:
    """The different names in a text with commas between them.

    Raises: InputError for a name that no verifier has.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        require_name(f"verifier {name!r}", name, verifier_names())
    return names


def _judge_inputs(experiment: Experiment | None, verifier: str) -> list[Input]:
    """The files of the judge model; none for other verifiers and without an experiment."""
    return judge_inputs(experiment, verifier) if experiment else []


def _table_of_other(verifier: str, output: Path) -> Path:
    """The table whose journal has the verdicts of a second verifier; it is never written."""
    return output.with_suffix(f".{verifier}.jsonl")


def _remove(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _warnings(
    responses: Sequence[Response],
    verdicts: Sequence[Verdict],
    verifier: str,
    extract: Sequence[str],
) -> Iterator[str]:
    """Lines about what may be wrong with the file."""
    without_answer = sum(verdict.reason == NO_ANSWER for verdict in verdicts)
    yield from _spoiled(responses)
    yield from problem_warnings([(response.problem, response.id) for response in responses])
    yield from text_warnings(responses)
    texts = [response.text for response in responses]
    yield from no_answer_warning(texts, without_answer, verifier, extract)
    yield from none_correct_warning(responses, verdicts, verifier, extract)


def _common_name(files: Sequence[Path]) -> str:
    """What the names of files have in common, without the suffixes of format and compression."""
    names = [re.sub(r"(\.jsonl?|\.csv|\.parquet|\.eval)?(\.gz)?$", "", path.name) for path in files]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    common = "".join(letters[0] for letters in alike)
    return common.rstrip("-_. ") or "responses"


def _settings_of(files: Sequence[Path], reading: Reading) -> dict[str, Any]:
    """The settings that decide which responses are read.

    What is not stated is left out, so that verdicts on a file of the user's own, made before other
    layouts were read, stay good.
    """
    columns = {name: getattr(reading, name) or default for name, default in _COLUMNS.items()}
    names = [path.name for path in files]
    settings: dict[str, Any] = {"columns": columns}
    settings["responses"] = names[0] if len(names) == 1 else names
    if reading.correct:
        columns["correct"] = reading.correct
    if reading.format:
        settings["format"] = reading.format
    if reading.answers:
        settings["answers"] = reading.answers.name
    return settings


def _write_verdicts(
    output: Path,
    responses: Sequence[Response],
    by_verifier: Mapping[str, Sequence[Verdict]],
    extract: Sequence[str],
) -> None:
    """Write a row for each response as JSON lines, with the verdict of the first verifier.

    If there are several verifiers, the row has the reasons of all.
    """
    lines = []
    for response, *verdicts in zip(responses, *by_verifier.values(), strict=True):
        row = verdict_row(response, verdicts[0], extract)
        if len(verdicts) > 1:
            row["verdicts"] = {verdict.verifier: verdict.reason for verdict in verdicts}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    with atomic_write(output) as partial:
        # UTF-8 cannot encode a lone surrogate, which is therefore written as in JSON: \udXXX.
        partial.write_bytes("".join(lines).encode(errors="backslashreplace"))


def _counts(outcomes: Outcomes, reasons: Counter[str], verifier: str) -> Iterator[str]:
    """Lines about all responses: verdicts and accuracy."""
    yield sizes(outcomes)
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    yield f"verdicts: {listed}"
    yield accuracy(outcomes)
    if verifier in READ_ANSWERS:
        share = reasons[NO_ANSWER] / outcomes.responses.sum()
        yield f"no answer: {share:.1%} of the responses have none"


def _agreement(
    responses: Sequence[Response], correct: Sequence[bool], verifier: str
) -> Iterator[str]:
    """Lines that compare the verdicts of the file, if it has any, with those of the verifier."""
    rows: list[dict[str, Any]] = []
    for response, verdict in zip(responses, correct, strict=True):
        if response.correct is not None:
            rows.append(_compared(response, response.correct, verdict))
    if rows:
        yield from _comparison(rows, "the verdicts of the file", verifier)


def _difference(
    responses: Sequence[Response],
    by_verifier: Mapping[str, Sequence[Verdict]],
    first: str,
    other: str,
) -> Iterator[str]:
    """Lines that compare the verdicts of two verifiers."""
    reasons = {verdict.reason for name in (first, other) for verdict in by_verifier[name]}
    if reasons == {NO_ANSWER}:
        yield ""
        yield f"{first} and {other} are not compared: neither read an answer in any response"
        return
    rows = []
    verdicts = zip(by_verifier[first], by_verifier[other], strict=True)
    for response, (verdict, other_verdict) in zip(responses, verdicts, strict=True):
        rows.append(_compared(response, verdict.correct, other_verdict.correct))
    yield from _comparison(rows, first, other)


def _compared(response: Response, correct: bool, correct_b: bool) -> dict[str, Any]:
    """A row for `differing_lines`, with the verdicts A and B on a response."""
    return {
        "correct": correct,
        "correct_b": correct_b,
        "answer": response.answers,
        "problem": response.problem,
        "response": response.text,
    }


def _comparison(rows: Sequence[Mapping[str, Any]], a: str, b: str) -> Iterator[str]:
    """Lines about how often A and B agree, and about the responses on which they differ."""
    counts = agreement_of_rows(rows)
    yield ""
    yield (
        f"A: {a}, {counts.accepted_a:.1%} correct; B: {b}; they agree "
        f"on {counts.agreement:.1%} of {counts.responses} responses, kappa {counts.kappa_text}"
    )
    yield from differing_lines(differing(rows), [row["problem"] for row in rows])


def _spoiled(responses: Sequence[Response]) -> Iterator[str]:
    r"""A line about boxes that were written as `"\boxed"` in JSON, where \b is a backspace."""
    # Not a raw string: \b is a backspace here too.
    count = sum("\boxed{" in response.text for response in responses)
    if count:
        yield f"responses with a backspace and oxed{{: {count}; in JSON, a box is written \\\\boxed"
