"""`rspo verify`: verdicts on the responses in a file, and their Pass@k."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.fingerprints import verifier_settings
from rspo.config.own import OWN_VERIFIERS
from rspo.config.steps import judge_inputs, lock_of
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.provenance import Done
from rspo.core.step import Step
from rspo.evaluation.different import different_answers
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k_table import counted, default_ks, pass_at_k_table, span
from rspo.evaluation.response_file import (
    STANDARD_INPUT,
    Columns,
    ResponseFile,
    read_response_file,
)
from rspo.evaluation.verification import verdict_counts, verified
from rspo.rewards import Verdict
from rspo.rewards.configured import verifier_of
from rspo.rewards.extraction import final_answers, last_box

DEFAULT_COLUMNS = Columns()


def verify_file(
    path: Path,
    output: Path | None = None,
    verifier: str = "rules",
    columns: Columns = DEFAULT_COLUMNS,
    ks: Sequence[int] | None = None,
    experiment: Experiment | None = None,
    replace: bool = True,
) -> str:
    """Verify the responses of a file and write a row for each, in the order of the file.

    Args:
        path: JSON lines, CSV or Parquet (`read_response_file`); `-` is the standard input.
        output: JSON lines to write; default: beside `path`, with the suffix `.verdicts.jsonl`.
        ks: of Pass@k; default: 1, 2, 4, ... up to the smallest number of responses to a problem.
        experiment: configures the judge model, for the verifiers that use one.
        replace: whether to replace an output that was made with other settings.

    Returns: counts, accuracy and Pass@k with errors, as lines to print.

    Raises: InputError for bad responses, a k above every problem's number of responses, or an
        output that may not be replaced.
    """
    output = output or default_output(path)
    _check_output(path, output)
    decides = verifier_settings(experiment.config if experiment else None, verifier)
    step = Step(
        "rspo verify",
        (output,),
        decides | {"columns": asdict(columns)},
        lambda: judge_inputs(experiment, verifier) if experiment else [],
        lock_of(output),
    )
    if not replace:
        step.require_replaceable()
    file = read_response_file(path, columns)
    numbers = Counter(file.responses.questions)
    ks = default_ks(numbers.values()) if ks is None else sorted({*ks})
    if wrong := [k for k in ks if not 1 <= k <= max(numbers.values())]:
        raise InputError(
            f"k = {wrong[0]}; allowed: 1 to {max(numbers.values())}, the largest number of "
            "responses to a problem"
        )
    from_input = path == STANDARD_INPUT
    notes: dict[str, Any] = {}
    if from_input:
        notes = {"sources": ["standard input"], "content_sha256": file.content}
    rows: list[dict[str, Any]] = []

    def work() -> Done:
        with verifier_of(experiment, verifier, output.with_suffix(".judge.jsonl")) as verify:
            verdicts = verified(output, file.responses, verify, decides)
        rows.extend(_rows(file, verdicts))
        _write(output, rows)
        notes["verdicts"] = verdict_counts(verdicts)
        originals = [] if from_input else [path]
        return Done(notes=notes, originals=originals, clean_up=journal_of(output).unlink)

    step.run(work, force=True)
    return "\n".join([*_counts(rows), "", *pass_at_k_table(_outcomes(rows), ks)])


def default_output(path: Path) -> Path:
    """`responses.verdicts.jsonl` for `responses.jsonl` or `responses.jsonl.gz`.

    Raises: InputError for a pipe or a device, which have no folder for results.
    """
    if path != STANDARD_INPUT and (path.is_fifo() or path.is_char_device()):
        raise InputError(f"{path}: not a file; use - for the standard input, or set --output")
    name = "stdin" if path == STANDARD_INPUT else path.name
    for suffix in (".gz", ".jsonl", ".json", ".csv", ".parquet"):
        name = name.removesuffix(suffix)
    return path.parent / f"{name}.verdicts.jsonl"


def _check_output(path: Path, output: Path) -> None:
    """Raises: InputError for an output that is not JSON lines, has no folder or is the input."""
    if output.suffix != ".jsonl":
        raise InputError(f"{output}: has the suffix {output.suffix!r}; allowed: .jsonl")
    if not output.parent.is_dir():
        raise InputError(f"{output}: no such folder: {output.parent}")
    if path != STANDARD_INPUT and path.exists() and output.exists() and path.samefile(output):
        raise InputError(f"{output} has the responses; name another output")


def _rows(file: ResponseFile, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One row for each response; its most informative keys come first."""
    return [
        {
            "correct": verdict.correct,
            "reason": verdict.reason,
            **_extracted(text, verdict.verifier),
            "answer": answer,
            "verifier": verdict.verifier,
            "problem": problem,
            "response": text,
        }
        for problem, text, answer, verdict in zip(
            file.responses.questions, file.responses.texts, file.answers, verdicts, strict=True
        )
    ]


def _extracted(response: str, verifier: str) -> dict[str, str | None]:
    """The key `extracted`; absent for a user's own verifier, which does not say what it reads."""
    known = verifier not in OWN_VERIFIERS
    return {"extracted": extracted_answer(response, verifier)} if known else {}


def extracted_answer(response: str, verifier: str) -> str | None:
    """What a verifier compares with the answer; for xverify, which reads everything, the last box.

    Returns: None if there is no answer to extract.
    """
    if verifier in ("exact", "xverify"):
        return last_box(response)
    return next(iter(final_answers(response)), None)


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """JSON lines that are UTF-8, to be readable in every language.

    A lone surrogate, which UTF-8 does not have, keeps its escape sequence.
    """
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with atomic_write(path) as partial:
        partial.write_bytes("".join(lines).encode(errors="backslashreplace"))


def _outcomes(rows: Sequence[Mapping[str, Any]]) -> Outcomes:
    correct: dict[str, list[bool]] = {}
    for row in rows:
        correct.setdefault(row["problem"], []).append(row["correct"])
    values = [np.array(of_problem, dtype=bool) for of_problem in correct.values()]
    return Outcomes(tuple(correct), values, [one.astype(float) for one in values], (len(values),))


def _counts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    number = len(rows)
    reasons = Counter(row["reason"] for row in rows)
    correct = sum(row["correct"] for row in rows)
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    of_problem = Counter(row["problem"] for row in rows).values()
    lines = [
        f"{number} response{'s' * (number != 1)} to {counted(len(of_problem))}, "
        f"{span(of_problem)} each",
        f"verdicts: {listed}",
        f"accuracy: {correct / number:.1%} of the responses are correct",
    ]
    if all("extracted" in row for row in rows):
        empty = sum(row["extracted"] is None for row in rows)
        lines.append(f"no extractable answer: {empty / number:.1%} of the responses")
        lines += _different(rows)
    return lines


def _different(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many different answers a problem gets, and how often the most common one, as means."""
    answers: dict[str, list[str | None]] = {}
    for row in rows:
        answers.setdefault(row["problem"], []).append(row["extracted"])
    k = min(len(of_problem) for of_problem in answers.values())
    mean = fmean(float(different_answers(of_problem, k)) for of_problem in answers.values())
    common = fmean(_most_common(of_problem) for of_problem in answers.values())
    return [
        f"different answers, as text: {mean:.2f} among {k} response{'s' * (k != 1)} to a problem",
        f"most common answer, as text: {common:.1%} of the responses to a problem",
    ]


def _most_common(extracted: Sequence[str | None]) -> float:
    """The fraction of the responses to a problem that give its most common answer."""
    counts = Counter(answer for answer in extracted if answer is not None)
    return max(counts.values(), default=0) / len(extracted)
