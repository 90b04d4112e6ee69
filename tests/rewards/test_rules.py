r"""Which answers the verifier `rules` accepts as the same, and which it refuses.

The cases are in data/rules_accepted.txt and data/rules_refused.txt, one `answer  ~~  prediction` on
each line. docs/rules.md explains them.
"""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from rspo.rewards import is_correct
from rspo.rewards.rules import values
from rspo.rewards.rules.expressions import Apply, Number, Symbol, read
from rspo.rewards.rules.notation import tokens
from tests.support import ROOT
from tests.support.attacks import boxed

Pairs = list[tuple[str, str]]


def cases(name: str) -> dict[str, Pairs]:
    """Pairs of answer and prediction by the headings of a file."""
    result: dict[str, Pairs] = {}
    for line in (Path(__file__).parent / "data" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            pairs = result.setdefault(line.removeprefix("# "), [])
        elif line:
            answer, prediction = line.split("  ~~  ")
            pairs.append((answer, prediction))
    return result


ACCEPTED = cases("rules_accepted.txt")
REFUSED = cases("rules_refused.txt")


def verdicts(pairs: Pairs) -> list[bool]:
    answers, responses = [a for a, _ in pairs], [boxed(prediction) for _, prediction in pairs]
    return is_correct(responses, answers)


@pytest.mark.parametrize("kind", ACCEPTED)
def test_the_same_answer_in_another_notation_is_accepted(kind: str) -> None:
    pairs = ACCEPTED[kind]
    assert [pair for pair, right in zip(pairs, verdicts(pairs), strict=True) if not right] == []


@pytest.mark.parametrize("kind", REFUSED)
def test_a_different_answer_in_similar_notation_is_refused(kind: str) -> None:
    pairs = REFUSED[kind]
    assert [pair for pair, right in zip(pairs, verdicts(pairs), strict=True) if right] == []


@pytest.mark.parametrize(
    ("text", "name"),
    [(r"\hat{x} + 1", r"\hat{x}"), ("x_{n+1} + 1", "x_n+1"), ("x_{{2}} + 1", "x_2")],
)
def test_a_name_may_have_an_accent_or_an_index_in_braces(text: str, name: str) -> None:
    assert read(tokens(text)) == Apply("+", (Symbol(name), Number(Fraction(1))))


def test_a_power_near_1_is_exact_only_if_its_digits_are_few() -> None:
    """The numerator of 1.000001^19999 has 400,000 bits, although the power is 1.02."""
    long, _ = values.evaluate(read(tokens("1.000001^{19999}")), {})
    short, _ = values.evaluate(read(tokens("1.000001^{9}")), {})
    assert not isinstance(long, Fraction)
    assert isinstance(short, Fraction)


FIRST_INTEGRAL = r"""
from rspo.rewards.rules.equivalence import equivalent
row = [r"\sqrt{\pi}"], [r"\int_{-\infty}^{\infty} e^{-x^2} dx"]
assert [equivalent(*row), equivalent(*row)] == [True, True]
"""


def test_the_first_integral_of_a_process_gets_the_same_verdict_as_later_ones() -> None:
    """SymPy builds tables at its first integral by evaluating text, which the rules disable."""
    subprocess.run([sys.executable, "-c", FIRST_INTEGRAL], check=True, cwd=ROOT)


# The two sides have different roles. Only a prediction may leave out a base or give fewer digits;
# only in an answer does every number count, and only there is x + y = 7 more than the value 7.
# Only an answer may be a worked solution, and only it decides whether points have an order.
ASYMMETRIC = {
    ("7", "a+b=7"),
    ("7", "a-b=7"),
    ("7", "m+n=3+4=7"),
    ("x+y=7", "7"),
    ("7", "x=8=7"),
    ("7", "8=x=7"),
    ("x=7", "x=8=7"),
    ("165.47", "165.5"),
    ("1000.99", "so the number is 10 which is 1,000.99€"),
    ("12.50", "12.499"),
    ("2024.0", "2024.03"),
    ("1234.5", "1234.46"),
    ("5", "5^"),
    ("204_5", "204"),
    ("10", "10_2"),
    ("-3", "5 - 8"),  # a response may calculate, but an answer 5-8 is a range
    ("-2023", "1-2024"),
    ("555-1234", "-679"),
    ("10-20", "-10"),
    ("90^", "90"),
    ("The bus drives 16 km/h, and the car 48 km/h.", "48"),
    ("(1,2),(3,4)", "[(3,4), (1,2)]"),
    ("((1,2),(3,4))", "(3,4),(1,2)"),
    *ACCEPTED["worked solutions"],
}


def test_answer_and_prediction_may_change_places() -> None:
    pairs = [pair for kinds in (ACCEPTED, REFUSED) for lines in kinds.values() for pair in lines]
    pairs = [pair for pair in pairs if pair not in ASYMMETRIC and "box" not in pair[0]]
    swapped = verdicts([(prediction, answer) for answer, prediction in pairs])
    both = zip(pairs, verdicts(pairs), swapped, strict=True)
    assert [pair for pair, one, other in both if one != other] == []
