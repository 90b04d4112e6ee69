"""The layout of a scores table, which `rspo score` writes and `rspo compare` reads.

Each row has a sample, with the keys `problem_id`, `sample_index`, `correct` and `reward`
(docs/files.md).
"""

from rspo.formats.rows import Row
from rspo.formats.verified_response import (
    HINT,
    VerifiedResponse,
    correct_of,
    problem_of,
    reward_of,
)


def is_score(row: Row) -> bool:
    """Whether a row has this layout instead of that of `verdicts`."""
    return "problem_id" in row.values and "problem" not in row.values


def read_score(row: Row) -> VerifiedResponse:
    """Read a row of a scores table.

    Raises: InputError if the row lacks a key other than `reward`, or has an invalid value.
    """
    problem = problem_of(row, "problem_id")
    correct = correct_of(row)
    sample_index = row.value("sample_index", HINT)
    if not isinstance(sample_index, int):
        raise row.refuse("sample_index", "a whole number")
    return VerifiedResponse(problem, correct, reward_of(row), sample_index)
