"""A verdict per row: what `rspo verify` writes, and what `rspo compare` reads from any software.

A row has the keys `problem` (text), `correct` (true or false, or 1 or 0) and optionally `reward`.
"""

from typing import Any

from rspo.config.registered import OWN_VERIFIERS
from rspo.formats.responses import Response
from rspo.formats.rows import Row
from rspo.formats.verified_response import VerifiedResponse, correct_of, problem_of, reward_of
from rspo.rewards import Verdict
from rspo.rewards.extraction import extracted_answer


def read_verdict(row: Row) -> VerifiedResponse:
    """Raises: InputError for a row without problem or verdict, or with an invalid value."""
    problem = problem_of(row, "problem")
    correct = correct_of(row)
    return VerifiedResponse(problem, correct, reward_of(row))


def verdict_row(response: Response, verdict: Verdict) -> dict[str, Any]:
    """The row that `rspo verify` writes for a response; its most informative keys come first.

    A user's own verifier does not say which answer it reads, so its rows have no key `extracted`.
    """
    row: dict[str, Any] = {"correct": verdict.correct, "reason": verdict.reason}
    if verdict.verifier not in OWN_VERIFIERS:
        row["extracted"] = extracted_answer(response.text, verdict.verifier)
    row["answer"] = response.answers
    row["verifier"] = verdict.verifier
    row["problem"] = response.question
    row["response"] = response.text
    return row
