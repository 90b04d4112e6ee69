"""`exact`: text comparison, and integer arithmetic for countdown tasks."""

import itertools
import subprocess
import sys
import time

import pytest

from rspo.rewards import Verdict, is_correct, verify
from rspo.rewards.exact import solves_countdown
from tests.support import ROOT
from tests.support.attacks import ATTACKS


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (r"12*3=\boxed{36}", "correct"),
        (r"\boxed{ 36 }", "correct"),
        (r"\boxed{six squared}", "correct"),  # another accepted form
        (r"\boxed{36}\boxed{37}", "incorrect"),
        (r"\boxed{036}", "incorrect"),
        (r"\boxed{36.0}", "incorrect"),
        (r"\boxed{3 6}", "incorrect"),
        ("36", "no answer"),
    ],
)
def test_the_content_of_the_box_must_equal_an_answer(response: str, reason: str) -> None:
    assert verify([response], [["36", "six squared"]], "exact") == [Verdict(reason, "exact")]


SHAPES = ("{}{}{}{}{}", "({}{}{}){}{}", "{}{}({}{}{})", "-{}{}{}{}{}", "({}{}({}{}{}))")


def test_countdown_agrees_with_python_on_every_small_expression() -> None:
    """Every order, operator and bracketing of three numbers."""
    numbers, target = ("4", "5", "8"), 37
    for order in itertools.permutations(numbers):
        for operators in itertools.product("+-*", repeat=2):
            parts = [order[0], operators[0], order[1], operators[1], order[2]]
            for shape in SHAPES:
                expression = shape.format(*parts)
                assert solves_countdown(numbers, target, expression) == (eval(expression) == target)
    assert solves_countdown(numbers, target, "4*8+5")


@pytest.mark.parametrize(
    ("expression", "why_not"),
    [
        ("5*8", "leaves out a number"),
        ("5*8-3", "uses another number"),
        ("4+4*8+5-4", "uses a number twice"),
        ("4*8+05", "writes a number differently"),
        ("4*8+5=37", "is an equation"),
        ("48-5", "joins digits"),
        ("4*8+5*", "ends early"),
        ("(4*8+5", "never closes"),
        ("4*8+5)", "never opened"),
        ("4(8)+5", "multiplies without a sign"),
        ("4**8+5", "is another operator"),
        ("8/4+5", "divides"),
        ("４*8+5", "has a digit that is not ASCII"),
        ("", "is empty"),
        ("(" * 50 + "4*8+5" + ")" * 50, "is longer than 100 characters"),
        ("-" * 95 + "4*8+5", "gives another value"),
        ("__import__('os')", "is no arithmetic"),
    ],
)
def test_countdown_refuses_what(expression: str, why_not: str) -> None:
    assert not solves_countdown(("4", "5", "8"), 37, expression), why_not


def test_the_attacks_earn_nothing_and_take_no_time() -> None:
    started = time.process_time()
    assert not any(is_correct(list(ATTACKS.values()), ["7"] * len(ATTACKS), "exact"))
    assert not any(is_correct(list(ATTACKS.values()), ["4,5,8=37"] * len(ATTACKS), "exact"))
    assert time.process_time() - started < 10


def test_exact_starts_no_process_and_loads_neither_torch_nor_sympy() -> None:
    program = (
        "import subprocess, sys\n"
        "def refuse(*arguments, **options): raise AssertionError('a process was started')\n"
        "subprocess.Popen.__init__ = refuse\n"
        "from rspo.rewards import is_correct\n"
        "assert is_correct([r'\\boxed{1}'], ['1'], 'exact') == [True]\n"
        "assert not {'torch', 'sympy', 'math_verify', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
