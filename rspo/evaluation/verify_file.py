"""`rspo verify`: verify the responses in a file, and estimate their Pass@k."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.names import BOX_ONLY
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, require_name
from rspo.core.files import atomic_write
from rspo.evaluation.journal import journal_of
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import chosen_ks, counted, pass_at_k_table, span
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.score import verdict_counts, verified
from rspo.evaluation.verify_notes import differences, notes
from rspo.formats.responses import COLUMNS, Response, read_responses
from rspo.formats.verdicts import verdict_row
from rspo.pipeline.run import digests_of, require_replaceable, run
from rspo.pipeline.task import Done, Task
from rspo.pipeline.tasks import Input, judge_inputs, lock_of, verifier_settings
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
        verifier: a name, or several with commas between them. The first one decides, and the lines
            say where the others differ from it.
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
    names = names_of_verifiers(verifier)
    deciding_settings = verifier_settings(config, names[0], places)
    if len(names) > 1:
        settings_of_others = [verifier_settings(config, name, places) for name in names[1:]]
        deciding_settings["also"] = settings_of_others
    task = Task(
        (output,),
        deciding_settings | {"columns": dict(columns), "responses": path.name},
        lambda: [file for name in names for file in _judge_inputs(experiment, name)],
        lock_of(output),
    )
    # Before the file is read, so that a change after this shows.
    digests = digests_of([path])
    responses = read_responses(path, columns)
    responses_by_question = Counter(response.question for response in responses)
    ks = chosen_ks(np.array(list(responses_by_question.values())), ks)
    if not replace:  # after the checks of the arguments, which also apply with --force
        require_replaceable(task)
    by_verifier: dict[str, list[Verdict]] = {}
    journals = [journal_of(_table_of(name, names, output)) for name in names]

    def work() -> Done:
        stored = output.with_suffix(".judge.jsonl")
        for name in names:
            table = _table_of(name, names, output)
            settings = verifier_settings(config, name, places)
            with verifier_of(experiment, name, stored, extract=places) as verify:
                by_verifier[name] = verified(table, responses, verify, settings)
        _write_verdicts(output, responses, by_verifier, places)
        counts = {"verdicts": verdict_counts(by_verifier[names[0]])}
        return Done(notes=counts, originals=digests, clean_up=partial(_remove, journals))

    run(task, work, force=True)  # `require_replaceable` has refused what it must not replace
    outcomes = read_outcomes(output)
    verdicts = by_verifier[names[0]]
    lines = list(_counts(outcomes, Counter(verdict.reason for verdict in verdicts)))
    lines.extend(_spoiled(responses))
    lines.extend(notes(responses, verdicts, names[0], places))
    lines.extend(differences(responses, by_verifier, places))
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


def _table_of(verifier: str, verifiers: Sequence[str], output: Path) -> Path:
    """The table whose journal has the verdicts of a verifier; only that of the first is written."""
    return output if verifier == verifiers[0] else output.with_suffix(f".{verifier}.jsonl")


def _remove(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink()


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
