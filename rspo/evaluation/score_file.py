"""`rspo score-file`: verdicts on any JSON-lines file of responses."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.fingerprints import verifier_settings
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines
from rspo.core.replacement import require_own_output
from rspo.evaluation.verification import Responses, write_scores
from rspo.rewards.configured import verifier_inputs, verifier_of


def score_file(
    responses: Path,
    output: Path,
    verifier: str = "rules",
    problem_column: str = "problem",
    answer_column: str = "answer",
    response_column: str = "response",
    experiment: Experiment | None = None,
    replace: bool = True,
) -> None:
    """Score a JSON-lines file with one response a line.

    Lines with the same problem text are samples of one problem, numbered in file order; the problem
    id is a hash of the text. The reward is 1 for a correct response and 0 otherwise.

    Args:
        output: a scores table, .parquet.
        answer_column: holds an answer, or a list of accepted forms.
        experiment: configures the judge model, for the verifiers that use one.
        replace: whether to replace an output that was made with other settings.

    Raises: InputError for a file that is unreadable or empty, a missing column, two different
        answers to one problem, or an output that may not be replaced.
    """
    if output.suffix != ".parquet":
        raise InputError(f"{output}: has the suffix {output.suffix!r}; allowed: .parquet")
    columns = (problem_column, answer_column, response_column)
    verdict_settings = verifier_settings(experiment, verifier)
    settings = verdict_settings | {"columns": columns}
    if not replace:
        require_own_output(output, settings)
    lines = read_json_lines(responses)
    if not lines:
        raise InputError(f"{responses}: has no lines; at least one response is needed")
    samples = []
    counts: Counter[str] = Counter()
    answer_of: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        location = f"{responses}, line {number}"
        _check_line(location, line, columns)
        problem, answer = line[problem_column], line[answer_column]
        if answer_of.setdefault(problem, answer) != answer:
            raise InputError(
                f"{location}: the answer {answer!r} differs from {answer_of[problem]!r}, given "
                "before for the same problem"
            )
        digest = hashlib.sha256(problem.encode(errors="surrogatepass")).hexdigest()
        samples.append((digest[:12], counts[problem]))
        counts[problem] += 1
    parsed = Responses(
        samples,
        [line[response_column] for line in lines],
        [_forms(line[answer_column]) for line in lines],
        [line[problem_column] for line in lines],
        [1.0] * len(lines),
    )
    inputs = [responses, *verifier_inputs(experiment, verifier)]
    cache = output.with_suffix(".verdicts.jsonl")
    with verifier_of(experiment, verifier, cache) as verify:
        write_scores(output, parsed, verify, verdict_settings, settings, inputs)


def _check_line(location: str, line: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises: InputError unless problem and response are text and the answer has a valid form."""
    for column in columns:
        if column not in line:
            raise InputError(f"{location}: the column {column!r} is missing; has {', '.join(line)}")
    problem, answer, response = columns
    for column in (problem, response):
        if not isinstance(line[column], str):
            raise InputError(f"{location}: column {column!r} is {line[column]!r}; expected text")
    forms = _forms(line[answer])
    if not forms or not all(isinstance(form, str) and form.strip() for form in forms):
        raise InputError(
            f"{location}: column {answer!r} is {line[answer]!r}; "
            "expected text, number or list of them"
        )


def _forms(answer: Any) -> list[Any]:
    """Accepted forms of an answer; numbers become their JSON text."""
    forms = answer if isinstance(answer, list) else [answer]
    return [json.dumps(form) if _is_number(form) else form for form in forms]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
