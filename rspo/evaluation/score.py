"""`rspo score`: verdict and reward of each response."""

import hashlib
import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.config.fingerprints import verifier_settings
from rspo.core.errors import InputError
from rspo.core.files import fingerprint, read_json_lines
from rspo.core.provenance import code_version, write_provenance
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.core.usage import Usage, usage_so_far
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.rewards import Verdict, length_discounted
from rspo.rewards.configured import verifier_inputs, verifier_of
from rspo.rewards.verdict import INVALID_REPLY, NO_REPLY, REFUSED

Rows = Sequence[Mapping[str, Any]]

ROWS_OF_A_CHUNK = 500

_log = logging.getLogger(__name__)


def score(experiment: Experiment, policy: str, benchmark: str, block: int | None = None) -> None:
    """Score a policy's samples on a benchmark.

    The reward is the length-discounted one for every policy, whatever it was trained with: it is
    what Max@k is evaluated on, and `correct` is what Pass@k is.

    Args:
        block: only this one of the blocks that N samples come in; default: all.

    Raises: InputError for missing or bad tables, or samples that are not those of the problems.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    experiment.data_set(benchmark)  # likewise
    if block is not None:
        experiment.check_block(block)
    already: Usage | None = None
    for number in experiment.blocks if block is None else [block]:
        _score_block(experiment, policy, benchmark, number, already)
        already = usage_so_far()


def _score_block(
    experiment: Experiment, policy: str, benchmark: str, block: int, already: Usage | None
) -> None:
    problems_path = experiment.problems(benchmark)
    samples_path = experiment.samples(policy, benchmark, block)
    problems = read_table(problems_path, PROBLEMS)
    samples = read_table(samples_path, SAMPLES)
    _check_samples(samples_path, samples, problems)
    payoff = _payoff(experiment, samples_path, samples)
    by_id = {problem["id"]: problem for problem in problems}
    asked = [by_id[sample["problem_id"]] for sample in samples]
    path = experiment.scores(policy, benchmark, block)
    judged = _judged(
        experiment,
        experiment.config.verifier,
        experiment.verdicts(policy, f"{benchmark}/{block}"),
        path,
        Responses(
            [sample["text"] for sample in samples],
            [problem["answers"] for problem in asked],
            [problem["prompt"][-1]["content"] for problem in asked],
        ),
    )
    try:
        with judged as verdicts:
            rewards = [
                earned if verdict.correct else 0.0
                for earned, verdict in zip(payoff, verdicts, strict=True)
            ]
            places = [(sample["problem_id"], sample["sample_index"]) for sample in samples]
            write_table(path, SCORES, _rows(places, verdicts, rewards))
            judge = verifier_inputs(experiment, experiment.config.verifier)
            inputs = [problems_path, samples_path, *judge]
            settings, notes = fingerprints.settings(experiment, "score"), _notes(verdicts)
            write_provenance(path, settings, inputs, notes=notes, already=already)
    except InputError as error:
        raise InputError(f"{policy} on {benchmark}: {error}") from None


def score_responses(
    responses: Path,
    output: Path,
    verifier: str = "rules",
    problem_column: str = "problem",
    answer_column: str = "answer",
    response_column: str = "response",
    experiment: Experiment | None = None,
) -> None:
    """Score any JSON-lines file of responses, one response a line.

    Lines with the same problem text are samples of one problem, numbered in the order in which
    they stand; its id is made of the text. The reward is 1 for a correct response and 0 otherwise.

    Args:
        answer_column: holds an answer, or a list of accepted forms.
        experiment: says where the judge is, for the verifiers that need one.

    Raises: InputError for a file that cannot be read or is empty, a missing column, or two
        different answers to one problem.
    """
    if output.suffix != ".parquet":
        raise InputError(f"{output}: is {output.suffix or 'nothing'}; allowed: .parquet")
    lines = read_json_lines(responses)
    if not lines:
        raise InputError(f"{responses}: has no lines; at least one response is needed")
    columns = (problem_column, answer_column, response_column)
    places = []
    seen: Counter[str] = Counter()
    answer_of: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        place = f"{responses}, line {number}"
        _check_line(place, line, columns)
        problem, answer = line[problem_column], line[answer_column]
        if answer_of.setdefault(problem, answer) != answer:
            raise InputError(
                f"{place}: the answer {answer!r} differs from {answer_of[problem]!r}, given "
                "before for the same problem"
            )
        places.append((_identifier(problem), seen[problem]))
        seen[problem] += 1
    judged = _judged(
        experiment,
        verifier,
        output.with_suffix(".verdicts.jsonl"),
        output,
        Responses(
            [line[response_column] for line in lines],
            [_forms(line[answer_column]) for line in lines],
            [line[problem_column] for line in lines],
        ),
    )
    with judged as verdicts:
        rewards = [float(verdict.correct) for verdict in verdicts]
        write_table(output, SCORES, _rows(places, verdicts, rewards))
        settings = verifier_settings(experiment, verifier) | {"columns": columns}
        inputs = [responses, *verifier_inputs(experiment, verifier)]
        write_provenance(output, settings, inputs, notes=_notes(verdicts))


@dataclass(frozen=True)
class Responses:
    """What a verifier is asked about, row by row."""

    texts: list[str]
    answers: list[list[str]]
    questions: list[str]


@contextmanager
def _judged(
    experiment: Experiment | None,
    verifier: str,
    verdicts: Path,
    path: Path,
    responses: Responses,
) -> Iterator[list[Verdict]]:
    """Verdicts for a table that the block writes at `path`; a killed run goes on from its journal.

    Args:
        verdicts: where a judge model's verdicts are kept.
    """
    settings = verifier_settings(experiment, verifier)
    origin = [settings, code_version(), fingerprint(astuple(responses))]
    firsts = range(0, len(responses.texts), ROWS_OF_A_CHUNK)
    chunks = [slice(first, first + ROWS_OF_A_CHUNK) for first in firsts]
    with verifier_of(experiment, verifier, verdicts) as verify:

        def judge(rows: slice) -> list[Any]:
            questions = responses.questions[rows]
            found = verify(responses.texts[rows], responses.answers[rows], questions=questions)
            return [astuple(verdict) for verdict in found]

        with in_chunks(journal_of(path), origin, chunks, judge) as rows:
            yield [Verdict(*row) for row in rows]


def _payoff(experiment: Experiment, path: Path, samples: Rows) -> list[float]:
    """What each sample earns if it is correct; looked at before anything is judged.

    Raises: InputError for samples longer than a response may be.
    """
    try:
        earned = length_discounted(
            [True] * len(samples),
            [sample["tokens"] for sample in samples],
            experiment.config.sampling.max_response_tokens,
            experiment.config.rewards.length_discount,
        )
    except InputError as error:
        raise InputError(f"{path}: {error} (sampling.max_response_tokens)") from None
    found: list[float] = earned.tolist()
    return found


def _rows(
    places: Sequence[tuple[str, int]], verdicts: Sequence[Verdict], rewards: Sequence[float]
) -> list[dict[str, Any]]:
    """Rows of the scores table."""
    return [
        {
            "problem_id": problem,
            "sample_index": index,
            "correct": verdict.correct,
            "verifier": verdict.verifier,
            "verdict": verdict.reason,
            "reward": reward,
        }
        for (problem, index), verdict, reward in zip(places, verdicts, rewards, strict=True)
    ]


def _notes(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """How often each verifier gave each verdict; a warning about those that are none."""
    counts = Counter(f"{verdict.verifier}: {verdict.reason}" for verdict in verdicts)
    judged = [verdict for verdict in verdicts if verdict.verifier == "xverify"]
    for reason in (INVALID_REPLY, REFUSED, NO_REPLY):
        if count := sum(verdict.reason == reason for verdict in judged):
            message = "%d of %d responses that were judged count as wrong for another reason: %s"
            _log.warning(message, count, len(judged), reason)
    return {"verdicts": dict(counts.most_common())}


def _identifier(problem: str) -> str:
    """The same for the same text, on every machine."""
    return hashlib.sha256(problem.encode(errors="surrogatepass")).hexdigest()[:12]


# --- what is refused ------------------------------------------------------------------------------


def _check_samples(path: Path, samples: Rows, problems: Rows) -> None:
    """Raises: InputError unless every problem, and nothing else, has whole samples."""
    for row, sample in enumerate(samples):
        empty = [name for name in SAMPLES.schema.names if sample[name] is None]
        if empty:
            raise InputError(f"{path}, row {row}: column {empty[0]!r} is empty; it needs a value")
    expected = {problem["id"] for problem in problems}
    found = {sample["problem_id"] for sample in samples}
    for ids, what in (
        (found - expected, "are of no problem of the benchmark"),
        (expected - found, "are missing"),
    ):
        if ids:
            raise InputError(
                f"{path}: the samples of {len(ids)} problems {what}, the first {min(ids)!r}; "
                "sample again"
            )


def _check_line(place: str, line: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises: InputError unless problem and response are texts and the answer one or more."""
    for column in columns:
        if column not in line:
            raise InputError(f"{place}: the column {column!r} is missing; has {', '.join(line)}")
    problem, answer, response = columns
    for column in (problem, response):
        if not isinstance(line[column], str):
            raise InputError(f"{place}: column {column!r} is {line[column]!r}; expected text")
    forms = _forms(line[answer])
    if not forms or not all(isinstance(form, str) and form.strip() for form in forms):
        raise InputError(
            f"{place}: column {answer!r} is {line[answer]!r}; expected text, number or list of them"
        )


def _forms(answer: Any) -> list[Any]:
    """Accepted forms of an answer; a number is the text that JSON has for it."""
    forms = answer if isinstance(answer, list) else [answer]
    return [json.dumps(form) if _is_number(form) else form for form in forms]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
