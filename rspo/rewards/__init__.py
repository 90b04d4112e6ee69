"""A response -> is its answer correct? -> reward.

    from rspo.rewards import is_correct
    is_correct(["so it is \\boxed{0.5}"], ["\\frac{1}{2}"])  # [True]

Verifiers, by the name that a config gives them:

exact        character by character, and exact arithmetic for countdown (`rspo.rewards.exact`)
math_verify  rules of mathematics, in worker processes with limits (`rspo.rewards.sandbox`)
xverify      a judge model, asked over HTTP (`rspo.rewards.xverify`)
cascade      what the rules accept is correct, and the judge model decides on the rest
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rspo.config.names import NEED_JUDGE, VERIFIERS
from rspo.core.errors import InputError
from rspo.rewards import exact
from rspo.rewards import sandbox as workers
from rspo.rewards.length import length_discounted
from rspo.rewards.verdict import Verdict

if TYPE_CHECKING:
    from rspo.rewards.xverify import XVerify

__all__ = ["NEED_JUDGE", "VERIFIERS", "Verdict", "is_correct", "length_discounted", "verify"]

Forms = tuple[str, ...]


def verify(
    responses: Sequence[str],
    answers: Sequence[str | Sequence[str]],
    verifier: str = "math_verify",
    time_limit: float = 5.0,
    questions: Sequence[str] | None = None,
    judge: "XVerify | None" = None,
) -> list[Verdict]:
    """Judge each response against the answer at its place.

    Args:
        responses: whole responses; for exact and math_verify only the last \\boxed{} of each
            counts.
        answers: for each response an answer, or a sequence of accepted forms of it.
        verifier: one of `VERIFIERS`.
        time_limit: of math_verify, wall-clock seconds for one response; over it the verdict is
            "timeout".
        questions, judge: what xverify and cascade need besides.

    Returns: a verdict for each response, in order.

    Raises: InputError for an unknown verifier, arguments of different length, an answer without
        accepted forms, no time, no judge, or a judge that cannot be reached.
    """
    if verifier not in VERIFIERS:
        raise InputError(f"verifier {verifier!r} is unknown; allowed: {', '.join(VERIFIERS)}")
    if len(responses) != len(answers):
        raise InputError(f"{len(responses)} responses but {len(answers)} answers")
    if time_limit <= 0:
        raise InputError(f"time_limit = {time_limit}; allowed: more than 0 seconds")
    forms = [_forms(answer, place) for place, answer in enumerate(answers)]
    for place, response in enumerate(responses):
        if not isinstance(response, str) or isinstance(responses, str):
            raise InputError(f"response {place} is {response!r}; expected a list of texts")
    if verifier == "exact":
        return _by(verifier, exact.judge(responses, forms))
    if verifier == "math_verify":
        return _by(verifier, workers.judge(responses, forms, time_limit))
    if judge is None or questions is None:
        raise InputError(f"verifier {verifier!r} needs questions and a judge")
    if len(questions) != len(responses):
        raise InputError(f"{len(responses)} responses but {len(questions)} questions")
    if verifier == "xverify":
        return _by("xverify", judge.judge(questions, responses, forms))
    return _cascade(questions, responses, forms, time_limit, judge)


def _forms(answer: str | Sequence[str], place: int) -> Forms:
    forms = (answer,) if isinstance(answer, str) else answer
    if not isinstance(forms, Sequence) or not forms or not all(isinstance(f, str) for f in forms):
        raise InputError(f"answer {place} is {answer!r}; expected a text, or one or more of them")
    return tuple(forms)


def _cascade(
    questions: Sequence[str],
    responses: Sequence[str],
    forms: Sequence[Forms],
    time_limit: float,
    judge: "XVerify",
) -> list[Verdict]:
    verdicts = _by("math_verify", workers.judge(responses, forms, time_limit))
    rest = [place for place, verdict in enumerate(verdicts) if not verdict.correct]
    judged = judge.judge(
        [questions[place] for place in rest],
        [responses[place] for place in rest],
        [forms[place] for place in rest],
    )
    for place, verdict in zip(rest, _by("xverify", judged), strict=True):
        verdicts[place] = verdict
    return verdicts


def _by(verifier: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [Verdict(verdict.reason, verifier) for verdict in verdicts]


def is_correct(
    responses: Sequence[str],
    answers: Sequence[str | Sequence[str]],
    verifier: str = "math_verify",
    time_limit: float = 5.0,
    questions: Sequence[str] | None = None,
    judge: "XVerify | None" = None,
) -> list[bool]:
    """`verify` without the reasons."""
    verdicts = verify(responses, answers, verifier, time_limit, questions, judge)
    return [verdict.correct for verdict in verdicts]
