"""Reads verdicts from any software, and writes those of `rspo verify`.

Each row that is written has the verdict on a response, with the keys `problem` and `correct`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rspo.config.names import BOX_ONLY, EXTRACTING, PLACES, places_of
from rspo.config.registered import OWN_VERIFIERS
from rspo.formats.problems import PROBLEM_HINT, id_of, problem_text
from rspo.formats.responses import Response
from rspo.formats.rows import Row
from rspo.formats.scores import is_score, read_score
from rspo.formats.source import Source
from rspo.formats.verified_response import (
    VerifiedResponse,
    rewards_of,
    verdicts_of,
    verifier_in,
    with_values,
)
from rspo.rewards import Verdict, shown_verifier
from rspo.rewards.extraction import extracted_answer


def verified_responses(source: Source) -> Iterator[tuple[Row, VerifiedResponse]]:
    """The verdicts of a file, each with its row.

    Raises: InputError for a row that lacks the problem or the verdict, or has an invalid value.
    """
    for file_row in source.rows:
        row = with_values(file_row) if source.path.suffix == ".csv" else file_row
        if is_score(row) and source.columns["problem"] == "problem_id":
            yield row, read_score(row)
            continue
        for verdict in _verdicts(row, source):
            yield row, verdict


def _verdicts(row: Row, source: Source) -> list[VerifiedResponse]:
    """The verdicts of a row, which may have several responses."""
    columns = source.columns
    problem = problem_text(row, columns["problem"], PROBLEM_HINT)
    may_verify = source.has("answer") and source.has("response")
    hint = " (--verifier rules verifies the responses instead)" if may_verify else ""
    verdicts = verdicts_of(row, source.path_of("correct"), hint)
    rewards = rewards_of(row, len(verdicts), source.path_of("reward"))
    problem_id = "" if "question" in columns else id_of(row, columns.get("id"))
    # Another key than `correct`, such as `correct_in_file`, has the verdicts of other software.
    verifier = _verifier(row) if columns.get("correct") == "correct" else ""
    return [
        VerifiedResponse(problem, correct, reward, id=problem_id, verifier=verifier)
        for correct, reward in zip(verdicts, rewards, strict=True)
    ]


def recorded_places(row: Row) -> tuple[str, ...]:
    """The places of the answer that a row of `rspo verify` records; the box if it records none."""
    recorded = row.values.get("extract")
    if "extracted" not in row.values or not isinstance(recorded, str):
        return BOX_ONLY
    places = tuple(places_of(recorded))
    return places if set(places) <= set(PLACES) else BOX_ONLY


def _verifier(row: Row) -> str:
    """The verifier that a row of `rspo verify` records, with its places; else empty."""
    verifier = verifier_in(row)
    return shown_verifier(verifier, recorded_places(row)) if verifier else ""


def verdict_row(
    response: Response, verdict: Verdict, extract: Sequence[str] = BOX_ONLY
) -> dict[str, Any]:
    """The row that `rspo verify` writes for a response. Its most informative keys come first.

    A verifier that the user registered does not say which answer it extracts from a response, so
    its rows have no key `extracted`.
    """
    row: dict[str, Any] = {"correct": verdict.correct, "reason": verdict.reason}
    if verdict.verifier not in OWN_VERIFIERS:  # those that the user registered
        row["extracted"] = extracted_answer(response.text, verdict.verifier, extract)
    if response.correct is not None:
        row["correct_in_file"] = response.correct
    row["answer"] = response.answers
    row["verifier"] = verdict.verifier
    if tuple(extract) != BOX_ONLY and verdict.verifier in EXTRACTING:
        row["extract"] = ",".join(extract)
    row["problem"] = response.problem
    if response.by_id:
        row["question"] = response.question
    row["response"] = response.text
    return row
