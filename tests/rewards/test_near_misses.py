"""`rules` refuses predictions that are almost the answer, and wrong by construction."""

import pytest

from rspo.rewards import is_correct
from rspo.rewards.rules.prose import choice_in
from tests.rewards.test_rules import ACCEPTED, REFUSED
from tests.support.attacks import boxed
from tests.support.near_misses import Pair, near_misses, of_answers

# Kinds of answers that a prefix or suffix does not change: a conclusion, a letter, or a box in it.
UNCHANGED = {"sentences", "worked solutions", "wrappings", "words and choices"}


def accepted(pairs: list[Pair]) -> list[Pair]:
    """The pairs that the rules accept by mistake."""
    responses = []
    for _, prediction in pairs:
        responses.append(prediction if r"\boxed" in prediction else boxed(prediction))
    verdicts = is_correct(responses, [answer for answer, _ in pairs])
    return [pair for pair, correct in zip(pairs, verdicts, strict=True) if correct]


def test_no_near_miss_is_accepted() -> None:
    pairs = list(near_misses(seed=0, rounds=1))
    assert len(pairs) > 600
    assert accepted(pairs) == []


@pytest.mark.ci
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_near_miss_of_thousands_is_accepted(seed: int) -> None:
    pairs = list(near_misses(seed, rounds=10))
    assert len(pairs) > 6000
    assert accepted(pairs) == []


def test_an_alternative_or_a_restriction_makes_an_answer_wrong() -> None:
    kinds = {**ACCEPTED, **REFUSED}
    answers = {answer for kind in kinds.keys() - UNCHANGED for answer, _ in kinds[kind]}
    answers = {answer for answer in answers if choice_in(answer) is None}  # a letter is all of it
    pairs = list(of_answers(sorted(answers)))
    assert len(pairs) > 5000
    assert accepted(pairs) == []
