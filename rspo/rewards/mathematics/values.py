"""What formulas are worth, and when two of them are equal.

Two formulas are equal if they agree in value; with variables, at rational points chosen once for
all. Values stay exact fractions as far as they can, and have 60 digits where they cannot.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import chain
from math import factorial
from typing import Any

import mpmath

from rspo.rewards.mathematics.expressions import (
    Apply,
    Expression,
    Number,
    Symbol,
    TooDeep,
    Unreadable,
    read,
)
from rspo.rewards.mathematics.notation import Tokens

_DIGITS = 60
_MOST_DIGITS = 2000
_LARGE = 10**9
_CLOSE = mpmath.mpf(10) ** -45
_LARGEST_EXPONENT = 10**6  # of 2; beyond, only identical writing is equal
_LARGEST_EXACT = 20_000  # bits
_LARGEST_FACTORIAL = 2000

Value = Any  # a Fraction, or one of mpmath's real or complex numbers, which have no types


class Undefined(Exception):
    """The formula has no value: it divides by zero, say, or is too large to have digits."""


def symbols(expression: Expression) -> set[str]:
    """The variables of a formula; pi, e and i are none."""
    if isinstance(expression, Symbol):
        return set() if expression.name in _CONSTANTS else {expression.name}
    if isinstance(expression, Apply):
        return {name for argument in expression.arguments for name in symbols(argument)}
    return set()


def evaluate(
    expression: Expression, values: Mapping[str, Fraction], digits: int = _DIGITS
) -> Value:
    """The value of a formula.

    Args:
        expression: the formula.
        values: the value of each of its variables.
        digits: what is calculated with where the value is not exact.

    Raises: Undefined if there is none.
    """
    with mpmath.workdps(digits):
        try:
            return _value(expression, values)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Undefined from error


def constant(tokens: Tokens) -> Value | None:
    """The value of a formula without variables; None for any other."""
    try:
        formula = read(tokens)
        return None if symbols(formula) else evaluate(formula, {})
    except (Unreadable, TooDeep, Undefined):
        return None


def _value(expression: Expression, values: Mapping[str, Fraction]) -> Value:
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Symbol):
        if expression.name in _CONSTANTS:
            return _CONSTANTS[expression.name]()
        return values[expression.name]
    arguments = [_value(argument, values) for argument in expression.arguments]
    value = _OPERATIONS[expression.operation](*arguments)
    if not isinstance(value, Fraction) and not mpmath.isfinite(value):
        raise Undefined
    return value


def _exact_if_small(value: Fraction) -> Value:
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return value if bits < _LARGEST_EXACT else mpmath.mpf(value.numerator) / value.denominator


def _arithmetic(operation: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Exact on fractions that are not too long, approximate on everything else."""

    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return _exact_if_small(operation(left, right))
        return operation(_mpmath(left), _mpmath(right))

    return apply


def _mpmath(value: Value) -> Value:
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _power(base: Value, exponent: Value) -> Value:
    if exponent == 0:
        return Fraction(1)
    if base == 0:
        if mpmath.re(_mpmath(exponent)) < 0:
            raise Undefined
        return Fraction(0)
    size = abs(mpmath.log(abs(_mpmath(base)), 2)) * abs(_mpmath(exponent))
    if size > _LARGEST_EXPONENT:
        raise Undefined
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        small = size + base.denominator.bit_length() < _LARGEST_EXACT
        if exponent.denominator == 1 and small and abs(exponent) < _LARGEST_EXACT:
            return base ** int(exponent)
    return mpmath.power(_mpmath(base), _mpmath(exponent))


def _root_of(radicand: Value, index: Value) -> Value:
    """The root that is written with a radical sign: real where there is a real one."""
    odd = isinstance(index, Fraction) and index.denominator == 1 and index.numerator % 2 == 1
    number = _mpmath(radicand)
    if odd and mpmath.im(number) == 0 and mpmath.re(number) < 0:
        return -_power(-number, 1 / _mpmath(index))
    return _power(number, 1 / _mpmath(index))


def _factorial(number: Value) -> Value:
    if not -_LARGEST_FACTORIAL < mpmath.re(_mpmath(number)) < _LARGEST_FACTORIAL:
        raise Undefined
    if isinstance(number, Fraction) and number.denominator == 1 and number >= 0:
        return Fraction(factorial(int(number)))
    return mpmath.gamma(_mpmath(number) + 1)


def _binomial(upper: Value, lower: Value) -> Value:
    below = _mpmath(_factorial(lower)) * _mpmath(_factorial(_OPERATIONS["-"](upper, lower)))
    return _mpmath(_factorial(upper)) / below


def _rounded(towards: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[Value], Value]:
    def apply(number: Value) -> Value:
        if mpmath.im(_mpmath(number)) != 0:
            raise Undefined
        return Fraction(int(towards(mpmath.re(_mpmath(number)))))

    return apply


def _logarithm(number: Value, base: Value = Fraction(10)) -> Value:
    return mpmath.log(_mpmath(number)) / mpmath.log(_mpmath(base))


def _exponential(exponent: Value) -> Value:
    return _power(mpmath.e(), exponent)


_CONSTANTS: dict[str, Callable[[], Value]] = {
    r"\pi": lambda: +mpmath.pi,
    "e": lambda: +mpmath.e,
    "i": lambda: mpmath.mpc(0, 1),
}
_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(lambda left, right: left / right),
    r"\frac": _arithmetic(lambda left, right: left / right),
    "negate": lambda number: -number,
    "^": _power,
    "root": _root_of,
    "!": _factorial,
    "abs": abs,
    r"\binom": _binomial,
    r"\lfloor": _rounded(mpmath.floor),
    r"\lceil": _rounded(mpmath.ceil),
    r"\degree": lambda number: _mpmath(number) * mpmath.pi / 180,
    r"\%": lambda number: number / 100,
    r"\log": _logarithm,
    r"\lg": _logarithm,
    r"\ln": lambda number: mpmath.log(_mpmath(number)),
    r"\exp": _exponential,
}
for _name, _function in {
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "cot": mpmath.cot,
    "sec": mpmath.sec,
    "csc": mpmath.csc,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arccot": mpmath.acot,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
}.items():
    _OPERATIONS["\\" + _name] = lambda number, function=_function: function(_mpmath(number))


# --- equality -------------------------------------------------------------------------------------


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same: exactly, or to 45 digits where they are not exact."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left == right
    with mpmath.workdps(_DIGITS):
        one, other = _mpmath(left), _mpmath(right)
        size = max(abs(one), abs(other))
        return bool(size < _CLOSE or abs(one - other) < _CLOSE * size)


def within(value: Value, centre: Fraction, distance: Fraction) -> bool:
    """Whether a value is real and no further from a fraction than a distance."""
    if isinstance(value, Fraction):
        return abs(value - centre) <= distance
    with mpmath.workdps(_DIGITS):
        return bool(abs(value - _mpmath(centre)) <= _mpmath(distance))


def points(names: set[str]) -> Iterator[dict[str, Fraction]]:
    """Values for variables: positive near 1, then each one negative.

    No value is 0, 1 or another's, where formulas that differ would agree; most are small, so that
    no exponential hides the other terms.
    """
    ordered = sorted(names)
    for shift, denominator in enumerate((101, 103, 107) if names else (1,)):
        yield {
            name: Fraction(_numerator(3 * place + shift), denominator)
            for place, name in enumerate(ordered)
        }
    for negative in ordered[:3]:
        yield {
            name: Fraction(_numerator(3 * place + 1), -109 if name == negative else 109)
            for place, name in enumerate(ordered)
        }


def _whole_points(names: set[str]) -> Iterator[dict[str, Fraction]]:
    r"""Whole numbers in a row, as \lfloor n/2 \rfloor and \lfloor n/3 \rfloor agree at many."""
    for size in range(1, 40):
        yield {name: Fraction(size + 5 * place) for place, name in enumerate(sorted(names))}


def _numerator(index: int) -> int:
    """Primes as far as answers have variables; no sum of a few is that of a few others."""
    return _PRIMES[index] if index < len(_PRIMES) else 300 + 7 * index**2


_PRIMES = [
    *(29, 41, 83, 47, 157, 59, 227, 73, 19, 137, 97, 179, 109, 31, 149, 61, 167, 89, 191, 211),
    *(37, 127, 233, 53, 241, 71, 197, 257, 113, 269),
]


def same(left: Expression, right: Expression) -> bool:
    """Whether two formulas agree wherever both can be compared."""
    names = symbols(left) | symbols(right)
    compared = 0
    stepwise = _rounds(left) or _rounds(right)
    for point in chain(points(names), _whole_points(names) if stepwise and names else ()):
        try:
            one, other = evaluate(left, point), evaluate(right, point)
            agree = equal(one, other) and _equal_to_the_unit(left, right, point, one)
        except Undefined:
            continue
        if agree:
            compared += 1
        elif all(value >= 0 for value in point.values()) or (_real(one) and _real(other)):
            return False  # away from positive numbers, complex branches may differ
    return compared >= (2 if names else 1)


def _rounds(expression: Expression) -> bool:
    if not isinstance(expression, Apply):
        return False
    return expression.operation in (r"\lfloor", r"\lceil") or any(
        map(_rounds, expression.arguments)
    )


def _equal_to_the_unit(
    left: Expression, right: Expression, point: Mapping[str, Fraction], value: Value
) -> bool:
    """Whether large values agree in all their digits, as 3^1010 and 3^1010 + 1 do not."""
    if isinstance(value, Fraction) or abs(value) < _LARGE:
        return True
    digits = min(_DIGITS + int(mpmath.log10(abs(value))), _MOST_DIGITS)
    one, other = evaluate(left, point, digits), evaluate(right, point, digits)
    with mpmath.workdps(digits):
        size = max(abs(_mpmath(one)) * mpmath.mpf(10) ** (45 - digits), _CLOSE)
        return bool(abs(_mpmath(one) - _mpmath(other)) < size)


def _real(value: Value) -> bool:
    return isinstance(value, Fraction) or mpmath.im(value) == 0


def constant_ratio(left: Expression, right: Expression) -> Value | None:
    """The number by which the right formula is multiplied in the left one, if there is one."""
    names = symbols(left) | symbols(right)
    ratio: Value | None = None
    for point in points(names) if names else ():
        try:
            quotient = evaluate(Apply("/", (left, right)), point)
        except Undefined:
            continue
        if ratio is not None and not equal(ratio, quotient):
            return None
        ratio = quotient
    return ratio


def is_positive(value: Value) -> bool:
    return _real(value) and mpmath.re(_mpmath(value)) > 0
