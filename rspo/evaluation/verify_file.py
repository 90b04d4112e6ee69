"""`rspo verify`: verify the responses in a file, and estimate their Pass@k."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write, require_output
from rspo.evaluation.agreement import agreement_of_rows, differing, differing_lines
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import accuracy, chosen_ks, pass_at_k_table, sizes
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.score import verdict_counts, verified
from rspo.formats.checks import READ_ANSWERS, no_answer_warning, problem_warnings, text_warnings
from rspo.formats.responses import Response, read_responses
from rspo.formats.source import Reading, all_files, without_verdicts
from rspo.formats.verdicts import verdict_row
from rspo.pipeline.run import digests_of, require_replaceable, run
from rspo.pipeline.task import Done, Task
from rspo.pipeline.tasks import judge_inputs, lock_of, verifier_settings
from rspo.rewards import Verdict
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
) -> str:
    """Verify the responses of a run and write a row for each, in the order of its files.

    Args:
        paths: a file or several, in any layout of `rspo.formats`.
        output: JSON lines to write; default: beside the first file, with the suffix
            `.verdicts.jsonl`; the name of several files is what their names have in common.
        reading: what the user states about the files.
        ks: default: the powers of two up to the smallest number of responses.
        experiment: has the settings of a judge model; only the verifier xverify needs it.
        replace: whether to replace an output that was made with other settings, or from another
            file.

    Returns: counts, accuracy and Pass@k with errors, as lines to print.
    """
    named = all_files([paths] if isinstance(paths, Path) else paths)
    files, left_out = without_verdicts(named)
    output = output or files[0].parent / f"{_common_name(files)}.verdicts.jsonl"
    require_output(output, ".jsonl")
    for path in files:
        if path.exists() and output.exists() and path.samefile(output):
            raise InputError(f"{output} has the responses; name another output")
    deciding_settings = verifier_settings(experiment.config if experiment else None, verifier)
    task = Task(
        (output,),
        deciding_settings | _settings_of(files, reading),
        lambda: judge_inputs(experiment, verifier) if experiment else [],
        lock_of(output),
    )
    # Before the files are read, so that a change after this shows.
    digests = digests_of(files + ([reading.answers] if reading.answers else []))
    responses, notes_of_files = read_responses(files, reading)
    responses_by_problem = Counter(response.problem for response in responses)
    ks = chosen_ks(np.array(list(responses_by_problem.values())), ks)
    if not replace:  # after the checks of the arguments, which also apply with --force
        require_replaceable(task)
    reasons: Counter[str] = Counter()
    correct: list[bool] = []

    def work() -> Done:
        with verifier_of(experiment, verifier, output.with_suffix(".judge.jsonl")) as verify:
            verdicts = verified(output, responses, verify, deciding_settings)
        _write_verdicts(output, responses, verdicts)
        correct.extend(verdict.correct for verdict in verdicts)
        reasons.update(verdict.reason for verdict in verdicts)
        notes = {"verdicts": verdict_counts(verdicts)}
        return Done(notes=notes, originals=digests, clean_up=journal_of(output).unlink)

    run(task, work, force=True)  # `require_replaceable` has refused what it must not replace
    outcomes = read_outcomes(output)
    lines = left_out + notes_of_files + list(_counts(outcomes, reasons, verifier))
    lines.extend(_agreement(responses, correct, verifier))
    lines.extend(_warnings(responses, reasons, verifier))
    lines.append("")
    lines.extend(pass_at_k_table(outcomes, ks))
    return "\n".join(lines)


def _warnings(responses: Sequence[Response], reasons: Counter[str], verifier: str) -> Iterator[str]:
    """Lines about what may be wrong with the file."""
    yield from _spoiled(responses)
    yield from problem_warnings([(response.problem, response.id) for response in responses])
    yield from text_warnings(responses)
    texts = [response.text for response in responses]
    yield from no_answer_warning(texts, reasons[NO_ANSWER], verifier)


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
    output: Path, responses: Sequence[Response], verdicts: Sequence[Verdict]
) -> None:
    """Write a row for each response as JSON lines."""
    lines = []
    for response, verdict in zip(responses, verdicts, strict=True):
        row = verdict_row(response, verdict)
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
            rows.append(
                {
                    "correct": response.correct,
                    "correct_b": verdict,
                    "answer": response.answers,
                    "problem": response.problem,
                    "response": response.text,
                }
            )
    if not rows:
        return
    counts = agreement_of_rows(rows)
    yield ""
    yield (
        f"A: the verdicts of the file, {counts.accepted_a:.1%} correct; B: {verifier}; they agree "
        f"on {counts.agreement:.1%} of {counts.responses} responses, kappa {counts.kappa_text}"
    )
    yield from differing_lines(differing(rows))


def _spoiled(responses: Sequence[Response]) -> Iterator[str]:
    r"""A line about boxes that were written as `"\boxed"` in JSON, where \b is a backspace."""
    # Not a raw string: \b is a backspace here too.
    count = sum("\boxed{" in response.text for response in responses)
    if count:
        yield f"responses with a backspace and oxed{{: {count}; in JSON, a box is written \\\\boxed"
