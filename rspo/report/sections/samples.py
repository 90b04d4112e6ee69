"""The section Samples: of each benchmark a right response, a wrong one, and the longest."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rspo.config.experiment import Experiment
from rspo.evaluation.read_outcomes import scored_samples
from rspo.report import readable
from rspo.report.visible_text import visible


@dataclass(frozen=True)
class Response:
    """One response; its texts show invisible characters (`rspo.report.visible_text`).

    kind: "right", "wrong" or "longest".
    facts: sample and verdict, as (name, value).
    """

    kind: str
    prompt: str
    answers: str
    text: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class Reading:
    """The responses of a benchmark; lacking: the kinds without a response."""

    benchmark: str
    policy: str
    responses: list[Response]
    lacking: list[str]


def readings(experiment: Experiment) -> Iterator[Reading]:
    """The responses to show for each benchmark: always the first of their kind in the tables.

    Raises: InputError for tables that are missing or do not belong together.
    """
    for policy, benchmark in readable(experiment):
        frame = scored_samples(experiment, policy, benchmark)
        rows = {
            "right": frame[frame["correct"]].head(1),
            "wrong": frame[~frame["correct"]].head(1),
            "longest": frame.loc[[frame["tokens"].idxmax()]],
        }
        counts = frame.groupby("problem_id")["correct"].agg(["sum", "size"])
        responses = []
        for kind, row in rows.items():
            for sample in row.to_dict("records"):
                right, total = counts.loc[sample["problem_id"]]
                count = f"{right} of {total} samples are right"
                responses.append(_response(kind, sample, count))
        lacking = [kind for kind, row in rows.items() if row.empty]
        yield Reading(benchmark, policy, responses, lacking)


def _response(kind: str, sample: dict[str, Any], count: str) -> Response:
    ended = "by itself" if sample["finish_reason"] == "stop" else "cut at the limit"
    return Response(
        kind,
        visible("\n\n".join(message["content"] for message in sample["prompt"])),
        visible(" or ".join(sample["answers"])),
        visible(sample["text"]),
        [
            ("Problem", f"{visible(sample['problem_id'])}; {count}"),
            ("Sample", f"number {sample['sample_index']}, counted from 0"),
            ("Verdict", f"{visible(sample['verdict'])}, by {sample['verifier']}"),
            ("Length", f"{sample['tokens']} tokens, ended {ended}"),
        ],
    )
