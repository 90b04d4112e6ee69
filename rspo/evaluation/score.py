"""`rspo score`: verdict and reward of each response."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.files import read_json_lines, write_provenance
from rspo.rewards import Verdict, length_discounted, verify
from rspo.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table

Rows = Sequence[Mapping[str, Any]]


def score(experiment: Experiment, policy: str, benchmark: str) -> None:
    """Score a policy's samples on a benchmark.

    The reward is the length-discounted one for every policy, whatever it was trained with: it is
    what Max@k is evaluated on, and `correct` is what Pass@k is.

    Raises: InputError for missing or bad tables, or samples that are not those of the problems.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    problems_path = experiment.problems(benchmark)
    samples_path = experiment.samples(policy, benchmark)
    problems = read_table(problems_path, PROBLEMS)
    samples = read_table(samples_path, SAMPLES)
    _check_samples(samples_path, samples, problems)
    config = experiment.config
    answers = {problem["id"]: problem["answers"] for problem in problems}
    verdicts = verify(
        [sample["text"] for sample in samples],
        [answers[sample["problem_id"]] for sample in samples],
        config.verifier,
    )
    try:
        rewards = length_discounted(
            [verdict.correct for verdict in verdicts],
            [sample["tokens"] for sample in samples],
            config.sampling.max_response_tokens,
            config.rewards.length_discount,
        )
    except InputError as error:
        raise InputError(f"{samples_path}: {error} (sampling.max_response_tokens)") from None
    places = [(sample["problem_id"], sample["sample_index"]) for sample in samples]
    path = experiment.scores(policy, benchmark)
    write_table(path, SCORES, _rows(places, verdicts, config.verifier, rewards.tolist()))
    write_provenance(path, experiment.settings("score"), inputs=[problems_path, samples_path])


def score_responses(
    responses: Path,
    output: Path,
    verifier: str = "math_verify",
    problem_column: str = "problem",
    answer_column: str = "answer",
    response_column: str = "response",
) -> None:
    """Score any JSON-lines file of responses, one response a line.

    Lines with the same problem text are samples of one problem, numbered in the order in which
    they stand; its id is made of the text. The reward is 1 for a correct response and 0 otherwise.

    Args:
        answer_column: holds an answer, or a list of accepted forms.

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
    verdicts = verify(
        [line[response_column] for line in lines], [line[answer_column] for line in lines], verifier
    )
    rewards = [float(verdict.correct) for verdict in verdicts]
    write_table(output, SCORES, _rows(places, verdicts, verifier, rewards))
    settings = {"verifier": verifier, "columns": columns}
    write_provenance(output, settings, inputs=[responses])


def _rows(
    places: Sequence[tuple[str, int]],
    verdicts: Sequence[Verdict],
    verifier: str,
    rewards: Sequence[float],
) -> list[dict[str, Any]]:
    """Rows of the scores table."""
    return [
        {
            "problem_id": problem,
            "sample_index": index,
            "correct": verdict.correct,
            "verifier": verifier,
            "verdict": verdict.reason,
            "reward": reward,
        }
        for (problem, index), verdict, reward in zip(places, verdicts, rewards, strict=True)
    ]


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
    forms = line[answer] if isinstance(line[answer], list) else [line[answer]]
    if not forms or not all(isinstance(form, str) and form.strip() for form in forms):
        raise InputError(
            f"{place}: column {answer!r} is {line[answer]!r}; expected text, or a list of texts"
        )
