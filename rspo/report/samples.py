"""Responses to read: of each benchmark one that is right, one that is wrong, and the longest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SCORES, read_table
from rspo.evaluation.sample import policy_samples
from rspo.report import readable
from rspo.report.text import visible

_Pair = tuple[dict[str, Any], dict[str, Any]]  # a sample and its score


@dataclass(frozen=True)
class Response:
    """One response, its texts made visible (`rspo.report.text`).

    kind: "right", "wrong" or "longest".
    facts: where it stands and how it was judged, as (name, value).
    """

    kind: str
    prompt: str
    answers: str
    text: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class Reading:
    """What there is to read of a benchmark; lacking: the kinds of which it has none."""

    benchmark: str
    policy: str
    responses: list[Response]
    lacking: list[str]


def readings(experiment: Experiment) -> Iterator[Reading]:
    """One for each benchmark; always the first in the tables, so that nobody chooses.

    Raises: InputError for tables that are missing or do not belong together.
    """
    for policy, benchmark in readable(experiment):
        problems = {row["id"]: row for row in read_table(experiment.problems(benchmark), PROBLEMS)}
        pairs = _judged(experiment, policy, benchmark, set(problems))
        counts = Counter(sample["problem_id"] for sample, _ in pairs)
        right = Counter(score["problem_id"] for _, score in pairs if score["correct"])
        chosen = dict(_chosen(pairs))
        responses = []
        for kind, (sample, score) in chosen.items():
            problem = problems[sample["problem_id"]]
            share = f"{right[problem['id']]} of {counts[problem['id']]} samples are right"
            responses.append(_response(kind, sample, score, problem, share))
        lacking = [kind for kind in ("right", "wrong") if kind not in chosen]
        yield Reading(benchmark, policy, responses, lacking)


def _judged(experiment: Experiment, policy: str, benchmark: str, problems: set[str]) -> list[_Pair]:
    """Samples with their scores.

    Raises: InputError for tables that are missing or do not belong together.
    """
    samples = policy_samples(experiment, policy, benchmark)
    files = experiment.score_files(policy, benchmark)
    scores = [row for file in files for row in read_table(file, SCORES)]
    asked = {sample["problem_id"] for sample in samples}
    if _places(samples) != _places(scores) or not problems >= asked:
        raise InputError(
            f"{files[0].parent}: not the scores of the samples beside it, or those not of these "
            "problems; remake them"
        )
    return list(zip(samples, scores, strict=True))


def _places(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["problem_id"], row["sample_index"]) for row in rows]


def _chosen(pairs: list[_Pair]) -> Iterator[tuple[str, _Pair]]:
    if right := _first(pairs, lambda score: score["correct"]):
        yield "right", right
    if wrong := _first(pairs, lambda score: not score["correct"]):
        yield "wrong", wrong
    yield "longest", max(pairs, key=lambda pair: pair[0]["tokens"])


def _first(pairs: Iterable[_Pair], asked: Callable[[dict[str, Any]], bool]) -> _Pair | None:
    return next((pair for pair in pairs if asked(pair[1])), None)


def _response(
    kind: str, sample: dict[str, Any], score: dict[str, Any], problem: dict[str, Any], share: str
) -> Response:
    ended = "by itself" if sample["finish_reason"] == "stop" else "cut at the limit"
    return Response(
        kind,
        visible("\n\n".join(message["content"] for message in problem["prompt"])),
        visible(" or ".join(problem["answers"])),
        visible(sample["text"]),
        [
            ("Problem", f"{visible(problem['id'])}; {share}"),
            ("Sample", f"number {sample['sample_index']}, counted from 0"),
            ("Verdict", f"{visible(score['verdict'])}, by {score['verifier']}"),
            ("Length", f"{sample['tokens']} tokens, ended {ended}"),
        ],
    )
