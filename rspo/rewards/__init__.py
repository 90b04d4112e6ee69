r"""Verify the answers of responses and compute rewards.

    from rspo.rewards import is_correct
    is_correct([r"so it is \boxed{0.5}"], [r"\frac{1}{2}"])  # [True]

Verifiers, by their names in a config:

exact        compares text, and checks countdown expressions (`rspo.rewards.exact`)
rules        this package's own rules of mathematics (`rspo.rewards.rules`)
math_verify  the library math-verify (`rspo.rewards.math_verify`)
xverify      a judge model, queried over HTTP (`rspo.rewards.xverify`)

`register` adds another one (docs/add/verifier.md).

`rules` and `math_verify` run in worker processes with limits (`rspo.rewards.sandbox`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from rspo.config.names import (
    ALL_PLACES,
    BOX_ONLY,
    EXTRACTING,
    EXTRACTIONS,
    NAMES_OF_PLACES,
    VERIFIERS,
    places_of,
)
from rspo.config.registered import (
    OWN_VERIFIERS,
    Reward,
    VerifiedResponses,
    Verifier,
    register,
    verifier_names,
)
from rspo.core.errors import InputError, allowed_names, require_name
from rspo.rewards import exact, sandbox
from rspo.rewards.verdict import CORRECT, INCORRECT, Verdict

if TYPE_CHECKING:
    from rspo.rewards.xverify.judge import XVerify

__all__ = [
    "VERIFIERS",
    "Reward",
    "Verdict",
    "VerifiedResponses",
    "Verifier",
    "is_correct",
    "register",
    "verify",
]

LARGEST_EXACT = 2**53  # a float represents every integer up to this one
LONGEST = 86_400  # largest time limit in seconds, a day
Answer = str | float | Iterable[str | float]  # an answer, or several accepted forms of it


def verify(
    responses: Iterable[str],
    answers: Iterable[Answer],
    verifier: str = "rules",
    time_limit: float = 5.0,
    questions: Sequence[str] | None = None,
    judge: "XVerify | None" = None,
    extract: str | Sequence[str] = BOX_ONLY,
) -> list[Verdict]:
    """Verify each response against the answer at the same index.

    Args:
        responses: full responses. xverify and registered verifiers get all of a response; the other
            verifiers read only the answer that `extract` finds in it.
        answers: for each response an answer, or several accepted forms of it: texts or numbers, as
            in a file of `rspo verify`. A number stands for its digits; 142.0 stands for 142.
        verifier: a name in `VERIFIERS`, or a registered one (docs/add/verifier.md).
        time_limit: seconds of processor time that rules and math_verify may spend on one response.
            A response that takes longer, or 60 times as long in wall-clock time, gets the verdict
            "timeout".
        questions, judge: required by xverify.
        extract: where the answer may stand in a response: names of `PLACES`, as a list or
            separated by commas, in the order in which they are tried. By default, only its last
            \\boxed{} counts.

    Returns: a verdict for each response, in order.

    Raises: InputError for an unknown verifier, for arguments of other types or lengths, and if the
        verifier is not installed.
    """
    if verifier not in verifier_names():
        hint = allowed_names(verifier, verifier_names())
        raise InputError(f"verifier {verifier!r} is unknown; {hint}")
    for name, argument in (("responses", responses), ("answers", answers)):
        if not _is_list(argument):
            raise InputError(
                f"{name} is {argument!r:.60}; expected a list with one item per response"
            )
    responses = list(responses)
    answers = list(answers)
    if len(responses) != len(answers):
        raise InputError(f"{len(responses)} responses but {len(answers)} answers")
    if not 0 < time_limit <= LONGEST:
        raise InputError(f"time_limit = {time_limit}; allowed: more than 0, at most {LONGEST} s")
    for index, response in enumerate(responses):
        if not isinstance(response, str):
            raise InputError(f"response {index} is {response!r}; expected a text")
    places = extraction_of(extract)
    forms = [_forms(answer, index) for index, answer in enumerate(answers)]
    # Let the chosen verifier decide.
    if verifier == "exact":
        results = exact.verify(responses, forms, places)
    elif verifier in OWN_VERIFIERS:
        results = []
        for response, accepted in zip(responses, forms, strict=True):
            results.append(_own(verifier, response, accepted))
    elif verifier == "xverify":
        if judge is None or questions is None:
            raise InputError("verifier 'xverify' needs questions and a judge")
        if len(questions) != len(responses):
            raise InputError(f"{len(responses)} responses but {len(questions)} questions")
        results = judge.judge(questions, responses, forms)
    else:
        results = sandbox.verify(verifier, responses, forms, time_limit, places)
    return [Verdict(result.reason, verifier) for result in results]


def extraction_of(extract: str | Sequence[str]) -> tuple[str, ...]:
    """The places of an answer in a response, from their names in a list or separated by commas.

    Raises: InputError if there is none, or one is unknown.
    """
    places = tuple(places_of(extract))
    if not places:
        raise InputError(f"extract is empty; {allowed_names('', NAMES_OF_PLACES)}")
    for place in places:
        require_name(f"extract {place!r}", place, NAMES_OF_PLACES)
    return places


def places_named(
    extract: str | Sequence[str] | None, verifiers: Sequence[str]
) -> tuple[str, ...] | None:
    """The places that a user names for some verifiers; None if the user names none.

    Raises: InputError if a place is unknown, or if no verifier would read these places only.
    """
    if extract is None:
        return None
    places = extraction_of(extract)
    if not set(verifiers) & set(EXTRACTING):
        raise InputError(
            f"extract: {', '.join(verifiers)} gets the full response; "
            f"{', '.join(EXTRACTING)} read an answer at chosen places"
        )
    return places


def shown_verifier(verifier: str, extract: Sequence[str] = BOX_ONLY) -> str:
    """A verifier as the options that choose it, with the places if they are not the default."""
    if verifier not in EXTRACTING or tuple(extract) == BOX_ONLY:
        return verifier
    places = ALL_PLACES if tuple(extract) == EXTRACTIONS else ",".join(extract)
    return f"{verifier} --extract {places}"


def _own(verifier: str, response: str, forms: tuple[str, ...]) -> Verdict:
    """The verdict of a registered verifier.

    Raises: InputError if it returns neither true nor false.
    """
    correct = OWN_VERIFIERS[verifier].function(response, forms)
    if type(correct).__name__ not in ("bool", "bool_"):  # Python's or numpy's
        raise InputError(
            f"verifier {verifier!r} returned {correct!r:.60} for {response!r:.60}; expected a bool"
        )
    return Verdict(CORRECT if correct else INCORRECT)


def _forms(answer: Answer, index: int) -> tuple[str, ...]:
    """The accepted forms of the answer with this index, as texts.

    Raises: InputError if there is none, or one is neither text nor a finite number.
    """
    forms = texts_of(answer)
    if not forms or not all(isinstance(form, str) for form in forms):
        raise InputError(
            f"answer {index} is {answer!r}; expected a text or a number, or one or more of them"
        )
    return tuple(forms)


def texts_of(answer: Any) -> list[Any]:
    """The forms of an answer, with numbers replaced by their digits: 142 for 142.0."""
    forms = answer if _is_list(answer) else [answer]
    return [digits(form) for form in forms]


def _is_list(value: Any) -> bool:
    """Whether a value is a collection of items: iterable, but neither text nor a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def digits(value: Any) -> Any:
    """The digits of a finite number as text, "142" for 142.0; any other value stays as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return value
    is_whole = number.is_integer() and abs(number) <= LARGEST_EXACT
    return str(int(number)) if is_whole else str(value)


def is_correct(
    responses: Iterable[str],
    answers: Iterable[Answer],
    verifier: str = "rules",
    **options: Any,
) -> list[bool]:
    r"""Whether each response is correct, in order. See `verify` for the arguments and errors.

    is_correct([r"so it is \boxed{0.5}", r"\boxed{7}"], [r"\frac{1}{2}", 8])  # [True, False]
    is_correct([r"\boxed{x = 3}"] * 2, [[3, "x=3"], 3.5])  # [True, False]
    """
    return [verdict.correct for verdict in verify(responses, answers, verifier, **options)]
