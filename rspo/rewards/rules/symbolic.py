r"""Compares formulas that `expressions` cannot parse, with math-verify: \int, \sum, \lim, matrices.

The LaTeX parser of math-verify, latex2sympy2_extended, passes the text of each number to SymPy's
`sympify`, which evaluates text as Python. Here numbers are built from their digits instead. In
addition, SymPy's evaluator is replaced by a function that raises an error.
"""

import logging
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn

import math_verify
import sympy
import sympy.physics.units  # its import evaluates text, which `_lock` disables
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy.integrals import meijerint
from sympy.parsing import sympy_parser

from rspo.rewards.rules import units
from rspo.rewards.rules.answers import nesting
from rspo.rewards.rules.notation import TEXT, Tokens

# math-verify warns that its time limits are off. The worker process sets its own limits.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def _refuse(*_: object) -> NoReturn:
    raise ValueError("text is never evaluated")


@cache
def _lock() -> None:
    """Disable SymPy's evaluation of text, after building the tables that SymPy stores as text.

    Otherwise SymPy would build these tables at the first integral that needs them, and fail
    halfway, so that a verdict would depend on earlier rows.
    """
    # `sympy.simplify.hyperexpand` as an attribute is a function; this is the module of that name.
    hyperexpand: Any = import_module("sympy.simplify.hyperexpand")
    meijerint._lookup_table = {}
    meijerint._create_lookup_table(meijerint._lookup_table)
    hyperexpand._collection = hyperexpand.FormulaCollection()
    hyperexpand._meijercollection = hyperexpand.MeijerFormulaCollection()
    sympy_parser.eval_expr = _refuse


_LONGEST = 500  # characters of a formula
_DEEPEST = 12  # nested brackets
_WITH_INFINITY = {r"\int", r"\sum", r"\prod", r"\lim"}  # what infinity may be an end of
_MISREAD = {r"\mod", r"\bmod", r"\pmod", "'"}  # tokens that math-verify takes for something else


class _Reader(_Latex2Sympy):
    """The library's parser, but numbers are built from their digits."""

    def parse_number(self, text: str) -> sympy.Rational:
        return sympy.Rational(Fraction(text.replace(",", "")))


def same(gold: Tokens, prediction: Tokens) -> bool:
    """Whether math-verify can parse two formulas and finds them equal."""
    if not (_may_be_read(gold) and _may_be_read(prediction)):
        return False
    _lock()
    real = not any(token in ("i", r"\imath") for token in gold + prediction)
    try:
        formula = _read(gold, real)
        other_formula = _read(prediction, real)
    except Exception:  # errors of the parser, recursion, disabled evaluation
        return False
    # The time limit of math-verify would replace the worker's.
    return bool(math_verify.verify(formula, other_formula, timeout_seconds=None))


def _may_be_read(tokens: Tokens) -> bool:
    """Whether math-verify reads a formula as it is meant, and in a short time.

    It takes words for products of letters and 7' for a transpose, drops the 5 of 204_5, multiplies
    5 30 and A1, divides the terms of 1:2:3, calculates with infinity, and takes minutes to parse
    deeply nested brackets.
    """
    if sum(map(len, tokens)) > _LONGEST or nesting(tokens) > _DEEPEST:
        return False
    if r"\infty" in tokens and _WITH_INFINITY.isdisjoint(tokens):
        return False
    words = any(token.startswith(TEXT) and len(token) > 2 for token in tokens)
    words |= any(len(token) > 1 and units.has_meaning(token) for token in tokens)
    if words or not _MISREAD.isdisjoint(tokens) or tokens.count(":") > 1:
        return False
    for place, (token, following) in enumerate(pairwise(tokens), start=1):
        if token[0].isdigit() and following == "_":
            return False
        if units.follows_word(tokens, place) or _follows_number(tokens, place):
            return False
    return True


def _follows_number(tokens: Tokens, place: int) -> bool:
    r"""Whether two numbers meet at this place, and the first is no bound: \int_0^1 2x has one."""
    if not (tokens[place][0].isdigit() and tokens[place - 1][0].isdigit()):
        return False
    return tokens[max(0, place - 2) : place - 1] not in (("^",), ("_",))


def _read(tokens: Tokens, real: bool) -> Any:
    """Read a formula as an object of SymPy.

    Args:
        real: whether its symbols denote real numbers.

    Raises: errors of several types if the library cannot read it.
    """
    config = ConversionConfig(lowercase_symbols=False)
    latex = " ".join(token.removeprefix(TEXT) for token in tokens)
    read = _Reader(is_real=real, config=config).parse(latex.replace(r"\degree", r"^{\circ}"))
    # Evaluate sums and integrals. This also puts factors in SymPy's order.
    return read.doit() if isinstance(read, sympy.Basic) else read
