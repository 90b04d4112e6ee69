"""The layout of a scores table, which `rspo score` writes and `rspo compare` reads.

Each row has a sample, with the keys `problem_id`, `sample_index`, `correct` and `reward`
(docs/files.md).
"""

from rspo.formats.problems import problem_text
from rspo.formats.rows import Row
from rspo.formats.verified_response import (
    HINT,
    VerifiedResponse,
    rewards_of,
    verdicts_of,
    verifier_in,
)


def is_score(row: Row) -> bool:
    """Whether a row has this layout instead of that of `verdicts`."""
    return "problem_id" in row.values and "problem" not in row.values


def read_score(row: Row) -> VerifiedResponse:
    """Read a row of a scores table.

    Raises: InputError if the row lacks a key other than `reward`, or has an invalid value.
    """
    problem = problem_text(row, "problem_id", HINT)
    verdicts = verdicts_of(row)
    sample_index = row.value("sample_index", HINT)
    if not isinstance(sample_index, int):
        raise row.refuse("sample_index", "a whole number")
    if len(verdicts) > 1:
        raise row.refuse("correct", "a single verdict beside `sample_index`")
    (reward,) = rewards_of(row, 1)
    verifier = verifier_in(row)
    return VerifiedResponse(problem, verdicts[0], reward, sample_index, verifier=verifier)
