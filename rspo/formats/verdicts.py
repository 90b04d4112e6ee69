"""The layout that `rspo verify` writes, and that `rspo compare` reads from any software.

Each row has the verdict on a response, with the keys `problem` (text), `correct` (true or false, or
1 or 0) and perhaps `reward`.
"""

from collections.abc import Sequence
from typing import Any

from rspo.config.names import BOX_ONLY
from rspo.config.registered import OWN_VERIFIERS
from rspo.formats.responses import Response
from rspo.formats.rows import Row
from rspo.formats.verified_response import VerifiedResponse, correct_of, problem_of, reward_of
from rspo.rewards import Verdict
from rspo.rewards.extraction import extracted_answer


def read_verdict(row: Row) -> VerifiedResponse:
    """Read a row with a verdict.

    Raises: InputError if the row lacks the problem or the verdict, or has an invalid value.
    """
    problem = problem_of(row, "problem")
    correct = correct_of(row)
    return VerifiedResponse(problem, correct, reward_of(row))


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
    row["answer"] = response.answers
    row["verifier"] = verdict.verifier
    row["problem"] = response.question
    row["response"] = response.text
    return row
