"""How many different answers the responses to a problem have."""

from collections import Counter
from collections.abc import Sequence

from rspo.estimators import distinct_values


def different_answers(answers: Sequence[str | None], k: int) -> float:
    """Expected number of different answers among k of the responses to a problem.

    Answers differ if their texts do: 1/2 and 0.5 are two.

    Args:
        answers: one for each response; None for a response without an answer, which counts as a
            response but not as an answer.

    Raises: InputError unless 1 <= k <= len(answers).
    """
    counts = Counter(answer for answer in answers if answer is not None)
    return float(distinct_values(len(answers), list(counts.values()) or [0], k))
