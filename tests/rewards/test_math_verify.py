"""The verifier `math_verify`: the library of that name, with the same limits as the rules."""

import json
import re
import subprocess
import sys

from rspo.rewards import extraction, verify
from tests.support import ROOT
from tests.support.attacks import CODE, boxed


def test_the_library_decides_on_the_content_of_the_last_box() -> None:
    rows = [
        (r"so it is \boxed{0.5}", r"\frac{1}{2}", "correct"),
        (r"so it is \boxed{0.5}", "$1/2$", "correct"),
        (r"so it is \boxed{0.6}", r"\frac{1}{2}", "incorrect"),
        (r"\boxed{\frac12} and \boxed{3}", r"\{3, 0.5\}", "correct"),
        ("The final answer is $0.5$.", r"\frac{1}{2}", "no answer"),
        (boxed("x" * 20_000), "7", "too long"),
    ]
    verdicts = verify([row[0] for row in rows], [row[1] for row in rows], "math_verify")
    assert [verdict.reason for verdict in verdicts] == [row[2] for row in rows]
    assert {verdict.verifier for verdict in verdicts} == {"math_verify"}


EVALUATED = r"""
import builtins, json, sys
from rspo.rewards.math_verify import equivalent
from sympy.parsing import sympy_parser
equivalent(["7"], [r"\int_0^1 x dx"])  # imports evaluate text of their own
evaluated = []
for module, name in ((builtins, "eval"), (sympy_parser, "eval_expr")):
    def record(text, *arguments, original=getattr(module, name)):
        evaluated.append(str(text))
        return original(text, *arguments)
    setattr(module, name, record)
for prediction in json.load(sys.stdin):
    equivalent(["7"], [prediction])
print(json.dumps(evaluated))
"""


def test_the_library_evaluates_nothing_but_numbers() -> None:
    """It passes numbers to SymPy's `sympify`, which evaluates text as Python."""
    predictions = [extraction.last_box(attack) or "" for attack in CODE.values()]
    done = subprocess.run(
        [sys.executable, "-c", EVALUATED],
        input=json.dumps([*predictions, "3+4", "1.5"]),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    evaluated = json.loads(done.stdout)
    assert evaluated
    number = re.compile(r"(?:Integer|Float|Rational)? ?\(?['0-9. ]+\)?")
    assert [text for text in evaluated if not number.fullmatch(text)] == []
