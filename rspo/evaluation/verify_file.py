"""`rspo verify`: verdicts on the responses in a file, and their Pass@k."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.registered import OWN_VERIFIERS
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.datasets.own_file import Row, rows_of
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import chosen_ks, counted, pass_at_k_table, span
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.score import Response, verdict_counts, verified
from rspo.pipeline.run import digests_of, require_replaceable, run
from rspo.pipeline.settings import verifier_settings
from rspo.pipeline.task import Done, Task
from rspo.pipeline.tasks import judge_inputs, lock_of
from rspo.rewards import Verdict, texts_of
from rspo.rewards.configured import verifier_of
from rspo.rewards.extraction import final_answers, last_box

# What a row of the file has, by the key under which it has it.
COLUMNS = {name: name for name in ("problem", "answer", "response")}


def verify_file(
    path: Path,
    output: Path | None = None,
    verifier: str = "rules",
    columns: Mapping[str, str] = COLUMNS,
    ks: Sequence[int] | None = None,
    experiment: Experiment | None = None,
    replace: bool = True,
) -> str:
    """Verify the responses of a file and write a row for each, in the order of the file.

    Args:
        path: JSON lines, CSV or Parquet (`read_responses`).
        output: JSON lines to write; default: beside `path`, with the suffix `.verdicts.jsonl`.
        columns: the keys of the file, by those of `COLUMNS`.
        replace: whether to replace an output that was made with other settings, or of another file.

    Returns: counts, accuracy and Pass@k with errors, as lines to print.
    """
    stem = re.sub(r"(\.jsonl?|\.csv|\.parquet)?(\.gz)?$", "", path.name)
    output = output or path.parent / f"{stem}.verdicts.jsonl"
    _check_output(path, output)
    decides = verifier_settings(experiment.config if experiment else None, verifier)
    step = Task(
        (output,),
        decides | {"columns": dict(columns), "responses": path.name},
        lambda: judge_inputs(experiment, verifier) if experiment else [],
        lock_of(output),
    )
    digests = digests_of([path])
    responses = read_responses(path, columns)
    numbers = np.array([*Counter(one.question for one in responses).values()])
    ks = chosen_ks(numbers, ks)
    if not replace:  # after the checks of the arguments, which also apply with --force
        require_replaceable(step)

    def work() -> Done:
        with verifier_of(experiment, verifier, output.with_suffix(".judge.jsonl")) as verify:
            verdicts = verified(output, responses, verify, decides)
        lines = [
            json.dumps(_row(*one), ensure_ascii=False) + "\n"
            for one in zip(responses, verdicts, strict=True)
        ]
        with atomic_write(output) as partial:  # a lone surrogate keeps its escape sequence
            partial.write_bytes("".join(lines).encode(errors="backslashreplace"))
        reasons.update(verdict.reason for verdict in verdicts)
        notes = {"verdicts": verdict_counts(verdicts)}
        return Done(notes=notes, originals=digests, clean_up=journal_of(output).unlink)

    reasons: Counter[str] = Counter()
    run(step, work, force=True)
    outcomes = read_outcomes(output)
    return "\n".join(
        [*_counts(outcomes, reasons), *_spoiled(responses), "", *pass_at_k_table(outcomes, ks)]
    )


def read_responses(path: Path, columns: Mapping[str, str]) -> list[Response]:
    """Read JSON lines, UTF-8 with or without a byte order mark, also compressed with gzip.

    A file with the suffix .csv or .parquet is read as such. Rows with the same problem text are
    responses to one problem.
    """
    responses: list[Response] = []
    answer_of: dict[str, Any] = {}
    for row in rows_of(path):
        problem, answer, response = _values(row, columns)
        if (before := answer_of.setdefault(problem, answer)) != answer:
            raise InputError(
                f"{row}: the answer {answer!r:.60} differs from {before!r:.60}, given before for "
                "the same problem"
            )
        responses.append(Response(problem, answer, response))
    if not responses:
        raise InputError(f"{path}: has no rows; at least one response is needed")
    return responses


def _values(row: Row, columns: Mapping[str, str]) -> Iterator[Any]:
    """Problem, answer and response of a row."""
    for name, key in columns.items():
        value = row.value(key, f" (--{name}-column names the key of the {name})")
        forms = texts_of(value) if name == "answer" else [value]
        is_text = bool(forms) and all(isinstance(form, str) for form in forms)
        if not is_text or (name == "answer" and not all(form.strip() for form in forms)):
            of_answer = "text, number or list of them, not empty"
            raise row.refuse(key, of_answer if name == "answer" else "text")
        yield value


def _check_output(path: Path, output: Path) -> None:
    """Raises: InputError for an output that is not JSON lines, has no folder or is the input."""
    if output.suffix != ".jsonl":
        raise InputError(f"{output}: has the suffix {output.suffix!r}; allowed: .jsonl")
    if not output.parent.is_dir():
        raise InputError(f"{output}: no such folder: {output.parent}")
    if path.exists() and output.exists() and path.samefile(output):
        raise InputError(f"{output} has the responses; name another output")


def _row(response: Response, verdict: Verdict) -> dict[str, Any]:
    """The row of a response; its most informative keys come first.

    A verifier of the user's own does not say which answer it reads, so it has no key `extracted`.
    """
    row: dict[str, Any] = {"correct": verdict.correct, "reason": verdict.reason}
    if verdict.verifier not in OWN_VERIFIERS:
        row["extracted"] = extracted_answer(response.text, verdict.verifier)
    return row | {
        "answer": response.answers,
        "verifier": verdict.verifier,
        "problem": response.question,
        "response": response.text,
    }


def extracted_answer(response: str, verifier: str) -> str | None:
    """What a verifier compares with the answer; for xverify, which reads everything, the last box.

    Returns: None if there is no answer to extract.
    """
    if verifier in ("exact", "xverify"):
        return last_box(response)
    return next(iter(final_answers(response)), None)


def _counts(outcomes: Outcomes, reasons: Counter[str]) -> Iterator[str]:
    """Lines about all responses: verdicts and accuracy."""
    responses, total = outcomes.responses, int(outcomes.responses.sum())
    number = f"{total} response{'s' * (total != 1)}"
    yield f"{number} to {counted(len(responses))}, {span(responses.tolist())} each"
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    yield f"verdicts: {listed}"
    yield f"accuracy: {outcomes.counts.sum() / total:.1%} of the responses are correct"


def _spoiled(responses: Sequence[Response]) -> Iterator[str]:
    r"""A line about boxes that were written as `"\boxed"` in JSON, where \b is a backspace."""
    if count := sum("\boxed{" in one.text for one in responses):
        yield f"responses with a backspace and oxed{{: {count}; in JSON, a box is written \\\\boxed"
