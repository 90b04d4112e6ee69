"""A response -> is its answer correct? -> reward.

    from rspo.rewards import is_correct
    is_correct(["so it is \\boxed{0.5}"], ["\\frac{1}{2}"])  # [True]

Verifiers, by the name that a config gives them:

exact        character by character, and exact arithmetic for countdown (`rspo.rewards.exact`)
math_verify  the rules of math-verify, in worker processes with limits (`rspo.rewards.workers`)
"""

from collections.abc import Callable, Sequence

from rspo.errors import InputError
from rspo.rewards import exact, workers
from rspo.rewards.length import length_discounted
from rspo.rewards.verdict import Verdict

__all__ = ["VERIFIERS", "Verdict", "is_correct", "length_discounted", "verify"]

Verifier = Callable[[Sequence[str], Sequence[tuple[str, ...]], float], list[Verdict]]

VERIFIERS: dict[str, Verifier] = {"exact": exact.judge, "math_verify": workers.judge}


def verify(
    responses: Sequence[str],
    answers: Sequence[str | Sequence[str]],
    verifier: str = "math_verify",
    time_limit: float = 5.0,
) -> list[Verdict]:
    """Judge each response against the answer at its place.

    Args:
        responses: whole responses; only the last \\boxed{} of each counts.
        answers: for each response an answer, or a sequence of accepted forms of it.
        verifier: a name of `VERIFIERS`.
        time_limit: wall-clock seconds for one response; over it the verdict is "timeout".

    Returns: a verdict for each response, in order.

    Raises: InputError for an unknown verifier, responses and answers of different length, an
        answer without accepted forms, or no time.
    """
    if verifier not in VERIFIERS:
        missing = " is not built yet" if verifier == "xverify" else " is unknown"
        raise InputError(f"verifier {verifier!r}{missing}; allowed: {', '.join(VERIFIERS)}")
    if len(responses) != len(answers):
        raise InputError(f"{len(responses)} responses but {len(answers)} answers")
    if time_limit <= 0:
        raise InputError(f"time_limit = {time_limit}; allowed: more than 0 seconds")
    forms = [(answer,) if isinstance(answer, str) else tuple(answer) for answer in answers]
    for place, accepted in enumerate(forms):
        if not accepted:
            raise InputError(f"answer {place} has no accepted form; at least one is needed")
    return VERIFIERS[verifier](responses, forms, time_limit)


def is_correct(
    responses: Sequence[str],
    answers: Sequence[str | Sequence[str]],
    verifier: str = "math_verify",
    time_limit: float = 5.0,
) -> list[bool]:
    """`verify` without the reasons."""
    return [verdict.correct for verdict in verify(responses, answers, verifier, time_limit)]
