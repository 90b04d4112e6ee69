"""`rspo verify`: verify the responses in a file, and estimate their Pass@k."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.names import BOX_ONLY
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import chosen_ks, counted, pass_at_k_table, span
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.score import verdict_counts, verified
from rspo.formats.responses import COLUMNS, Response, read_responses
from rspo.formats.verdicts import verdict_row
from rspo.pipeline.run import digests_of, require_replaceable, run
from rspo.pipeline.task import Done, Task
from rspo.pipeline.tasks import judge_inputs, lock_of, verifier_settings
from rspo.rewards import Verdict, extraction_of
from rspo.rewards.configured import verifier_of


def verify_file(
    path: Path,
    output: Path | None = None,
    verifier: str = "rules",
    columns: Mapping[str, str] = COLUMNS,
    ks: Sequence[int] | None = None,
    experiment: Experiment | None = None,
    replace: bool = True,
    extract: str | Sequence[str] = BOX_ONLY,
) -> str:
    """Verify the responses of a file and write a row for each, in the order of the file.

    Args:
        path: JSON lines, CSV or Parquet (`rspo.formats.responses`).
        output: JSON lines to write; default: beside `path`, with the suffix `.verdicts.jsonl`.
        columns: for each key of `COLUMNS`, the key that the file has instead.
        ks: default: the powers of two up to the smallest number of responses.
        experiment: has the settings of a judge model; only the verifier xverify needs it.
        replace: whether to replace an output that was made with other settings, or from another
            file.
        extract: where the answer may stand in a response, see `rspo.rewards.verify`.

    Returns: counts, accuracy and Pass@k with errors, as lines to print.
    """
    # The name without the suffix of its format and of its compression.
    stem = re.sub(r"(\.jsonl?|\.csv|\.parquet)?(\.gz)?$", "", path.name)
    output = output or path.parent / f"{stem}.verdicts.jsonl"
    _check_output(path, output)
    places = extraction_of(extract)
    config = experiment.config if experiment else None
    deciding_settings = verifier_settings(config, verifier, places)
    task = Task(
        (output,),
        deciding_settings | {"columns": dict(columns), "responses": path.name},
        lambda: judge_inputs(experiment, verifier) if experiment else [],
        lock_of(output),
    )
    # Before the file is read, so that a change after this shows.
    digests = digests_of([path])
    responses = read_responses(path, columns)
    responses_by_question = Counter(response.question for response in responses)
    ks = chosen_ks(np.array(list(responses_by_question.values())), ks)
    if not replace:  # after the checks of the arguments, which also apply with --force
        require_replaceable(task)
    reasons: Counter[str] = Counter()

    def work() -> Done:
        stored = output.with_suffix(".judge.jsonl")
        with verifier_of(experiment, verifier, stored, extract=places) as verify:
            verdicts = verified(output, responses, verify, deciding_settings)
        _write_verdicts(output, responses, verdicts, places)
        reasons.update(verdict.reason for verdict in verdicts)
        notes = {"verdicts": verdict_counts(verdicts)}
        return Done(notes=notes, originals=digests, clean_up=journal_of(output).unlink)

    run(task, work, force=True)  # `require_replaceable` has refused what it must not replace
    outcomes = read_outcomes(output)
    lines = list(_counts(outcomes, reasons))
    lines.extend(_spoiled(responses))
    lines.append("")
    lines.extend(pass_at_k_table(outcomes, ks))
    return "\n".join(lines)


def _write_verdicts(
    output: Path,
    responses: Sequence[Response],
    verdicts: Sequence[Verdict],
    extract: Sequence[str],
) -> None:
    """Write a row for each response as JSON lines."""
    lines = []
    for response, verdict in zip(responses, verdicts, strict=True):
        row = verdict_row(response, verdict, extract)
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    with atomic_write(output) as partial:
        # UTF-8 cannot encode a lone surrogate, which is therefore written as in JSON: \udXXX.
        partial.write_bytes("".join(lines).encode(errors="backslashreplace"))


def _check_output(path: Path, output: Path) -> None:
    """Raises: InputError for an output that is not JSON lines, has no folder or is the input."""
    if output.suffix != ".jsonl":
        raise InputError(f"{output}: has the suffix {output.suffix!r}; allowed: .jsonl")
    if not output.parent.is_dir():
        raise InputError(f"{output}: no such folder: {output.parent}")
    if path.exists() and output.exists() and path.samefile(output):
        raise InputError(f"{output} has the responses; name another output")


def _counts(outcomes: Outcomes, reasons: Counter[str]) -> Iterator[str]:
    """Lines about all responses: verdicts and accuracy."""
    responses = outcomes.responses
    total = int(responses.sum())
    counted_responses = f"{total} response{'s' * (total != 1)}"
    yield f"{counted_responses} to {counted(len(responses))}, {span(responses.tolist())} each"
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    yield f"verdicts: {listed}"
    yield f"accuracy: {outcomes.counts.sum() / total:.1%} of the responses are correct"


def _spoiled(responses: Sequence[Response]) -> Iterator[str]:
    r"""A line about boxes that were written as `"\boxed"` in JSON, where \b is a backspace."""
    # Not a raw string: \b is a backspace here too.
    count = sum("\boxed{" in response.text for response in responses)
    if count:
        yield f"responses with a backspace and oxed{{: {count}; in JSON, a box is written \\\\boxed"
