"""Computes the values of formulas, and decides whether two formulas are equal.

Two formulas without variables are equal if their values agree. With variables, their values must
agree at fixed rational points. Values are exact fractions where possible. Otherwise they have
enough digits that no term is lost next to much larger terms.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import factorial
from typing import Any, TypeVar

import mpmath

from rspo.rewards.rules import expressions
from rspo.rewards.rules.expressions import Apply, Expression, Number, Symbol, TooDeep, Unreadable
from rspo.rewards.rules.notation import Tokens

# All limits bound the time of a comparison.
_DIGITS = 120  # default precision of inexact values, in decimal digits
_SPARE_DIGITS = 45  # more than rounding errors add up to
_LARGEST_SIZE = 2500  # digits before the point, or zeros after it, of inexact values
# Bits of a power before the point. A longer power has no value here, so it equals only a power that
# is written alike.
_LARGEST_EXPONENT = 10**6
_LARGEST_EXACT = 20_000  # bits of an exact fraction; longer ones become inexact
_LARGEST_FACTORIAL = 2000  # the largest n of n!
_LARGEST_GAMMA = 60  # the largest x of x! for an x that is not an integer

Value = Any  # a Fraction, or a real or complex number of mpmath, which has no type hints


class Undefined(Exception):
    """The formula has no value, as after a division by zero, or its value is too large."""


def symbols(expression: Expression) -> set[str]:
    """The variables of a formula, without pi, e and i."""
    if isinstance(expression, Symbol):
        return set() if expression.name in _CONSTANTS else {expression.name}
    if isinstance(expression, Apply):
        return {name for argument in expression.arguments for name in symbols(argument)}
    return set()


def evaluate(
    expression: Expression, values: Mapping[str, Fraction], digits: int = _DIGITS
) -> tuple[Value, int]:
    """The value of a formula, and the size of its terms in digits.

    The size is the number of digits before the point of the largest term, or of zeros after the
    point of the smallest term, whichever is larger.

    Args:
        expression: the formula.
        values: the value of each of its variables.
        digits: the precision of inexact arithmetic.

    Raises: Undefined if the formula has no value.
    """
    sizes = [0]
    with mpmath.workdps(digits):
        try:
            return _value(expression, values, sizes), max(sizes)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Undefined from error


def constant(tokens: Tokens) -> Value | None:
    """The value of a formula without variables; None if the tokens are no such formula."""
    try:
        formula = expressions.read(tokens)
        if symbols(formula):
            return None
        value, _ = evaluate(formula, {})
        return value
    except (Unreadable, TooDeep, Undefined):
        return None


def _value(expression: Expression, values: Mapping[str, Fraction], sizes: list[int]) -> Value:
    """The value of a formula; appends the size of every term to `sizes`."""
    if isinstance(expression, Number):
        value = expression.value
    elif isinstance(expression, Symbol):
        if expression.name in _CONSTANTS:
            value = _CONSTANTS[expression.name]()
        else:
            value = values[expression.name]
    else:
        arguments = [_value(argument, values, sizes) for argument in expression.arguments]
        value = _OPERATIONS[expression.operation](*arguments)
        if not isinstance(value, Fraction) and not mpmath.isfinite(value):
            raise Undefined
    sizes.append(_size(value))
    return value


def _size(value: Value) -> int:
    """How many digits a value has before the point, or zeros after it."""
    if value == 0:
        return 0
    if isinstance(value, Fraction):
        bits = value.numerator.bit_length() - value.denominator.bit_length()
    else:
        bits = mpmath.mag(value)
    return abs(int(bits)) * 302 // 1000  # a bit has 0.301 decimal digits


def _exact_if_small(value: Fraction) -> Value:
    """A fraction as it is, or as an inexact number if it is too long."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return value if bits < _LARGEST_EXACT else _mpmath(value)


def _arithmetic(operation: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """An operation that is exact for fractions that are not too long, and approximate otherwise."""

    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return _exact_if_small(operation(left, right))
        return operation(_mpmath(left), _mpmath(right))

    return apply


def _mpmath(value: Value) -> Value:
    """A value as a number of mpmath."""
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _power(base: Value, exponent: Value) -> Value:
    """A power, exact if base and exponent are and the result is not too long."""
    if exponent == 0:
        return Fraction(1)
    if base == 0:
        if mpmath.re(_mpmath(exponent)) < 0:
            raise Undefined
        return Fraction(0)
    # How many bits the result has before the point, or zeros after it. Check this before computing
    # a number that might fill the memory.
    bits = abs(mpmath.log(abs(_mpmath(base)), 2)) * abs(_mpmath(exponent))
    if bits > _LARGEST_EXPONENT:
        raise Undefined
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        # Close to 1, a small result may have a long numerator and denominator.
        longest = max(abs(base.numerator), base.denominator)
        small = mpmath.log(longest, 2) * abs(_mpmath(exponent)) < _LARGEST_EXACT
        if exponent.denominator == 1 and small and abs(exponent) < _LARGEST_EXACT:
            return base ** int(exponent)
    return mpmath.power(_mpmath(base), _mpmath(exponent))


def _root(radicand: Value, index: Value) -> Value:
    """The root that a radical sign denotes: the real root if it exists.

    mpmath's power would give a complex cube root of -8.
    """
    odd = isinstance(index, Fraction) and index.denominator == 1 and index.numerator % 2 == 1
    number = _mpmath(radicand)
    if odd and mpmath.im(number) == 0 and mpmath.re(number) < 0:
        return -_power(-number, 1 / _mpmath(index))
    return _power(number, 1 / _mpmath(index))


def _factorial(number: Value) -> Value:
    """The factorial, which is the gamma function for numbers that are not integers.

    Raises: Undefined if it is too large.
    """
    if not -_LARGEST_FACTORIAL < mpmath.re(_mpmath(number)) < _LARGEST_FACTORIAL:
        raise Undefined
    if isinstance(number, Fraction) and number.denominator == 1 and number >= 0:
        return Fraction(factorial(int(number)))
    if mpmath.fabs(_mpmath(number)) > _LARGEST_GAMMA:
        raise Undefined
    return mpmath.gamma(_mpmath(number) + 1)


def _binomial(upper: Value, lower: Value) -> Value:
    below = _mpmath(_factorial(lower)) * _mpmath(_factorial(_OPERATIONS["-"](upper, lower)))
    return _mpmath(_factorial(upper)) / below


def _rounded(towards: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[Value], Value]:
    """An operation that rounds a real number down or up."""

    def apply(number: Value) -> Value:
        if mpmath.im(_mpmath(number)) != 0:
            raise Undefined
        return Fraction(int(towards(mpmath.re(_mpmath(number)))))

    return apply


def _logarithm(number: Value, base: Value = Fraction(10)) -> Value:
    return mpmath.log(_mpmath(number)) / mpmath.log(_mpmath(base))


def _tanh(number: Value) -> Value:
    if abs(mpmath.re(_mpmath(number))) > _SPARE_DIGITS:
        raise Undefined  # too close to 1 to distinguish
    return mpmath.tanh(_mpmath(number))


# The functions compute the constants in the precision that is set when they are called.
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
    "root": _root,
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
    r"\exp": lambda exponent: _power(mpmath.e(), exponent),
    r"\cis": lambda angle: _power(mpmath.e(), mpmath.mpc(0, 1) * _mpmath(angle)),
    r"\tanh": _tanh,
}
_FUNCTIONS_OF_MPMATH = "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh"
for _name in _FUNCTIONS_OF_MPMATH.split():
    # mpmath writes asin for \arcsin. The default argument keeps the function of this iteration.
    _function = getattr(mpmath, _name.replace("arc", "a"))
    _OPERATIONS["\\" + _name] = lambda number, function=_function: function(_mpmath(number))


# --- equality -------------------------------------------------------------------------------------

_IMAGINARY = ("i", r"\cis")
_STEPWISE = (r"\lfloor", r"\lceil")  # functions that are constant between integers


def same(left: Expression, right: Expression) -> bool:
    """Whether two formulas agree at the points at which both have a value.

    Differences that different branches of complex functions can explain do not count. With
    variables, the formulas must agree at _LEAST_COMPARED points at least.
    """
    names = symbols(left) | symbols(right)
    has_i = _mentions(_IMAGINARY, left) or _mentions(_IMAGINARY, right)
    compared = 0
    for point in _points_for(left, right, names):
        try:
            value, other_value, agree = _compared(left, right, point)
        except Undefined:
            continue
        if agree:
            compared += 1
            continue
        if _real(value) and _real(other_value):
            return False
        # A difference of two real values proves that the formulas differ. So does a difference at a
        # point with positive coordinates, unless both values are complex and neither formula has i:
        # then, as at negative points, an argument is outside the real domain of a function, such as
        # log or a root, and equal formulas may take different branches.
        positive = all(coordinate > 0 for coordinate in point.values())
        if positive and (has_i or _real(value) or _real(other_value)):
            return False
    return compared >= (_LEAST_COMPARED if names else 1)


def _points_for(
    left: Expression, right: Expression, names: set[str]
) -> Iterator[dict[str, Fraction]]:
    """The points at which two formulas with these variables are compared."""
    yield from points(names)
    if names and (_mentions(_STEPWISE, left) or _mentions(_STEPWISE, right)):
        yield from _whole_points(names)


def constant_ratio(left: Expression, right: Expression) -> Value | None:
    """The constant c such that left = c * right.

    Returns: None if there is no such constant, or if the formulas have no variables.
    """
    names = symbols(left) | symbols(right)
    if not names:
        return None
    ratios: list[Expression] = []  # equal so far, at the points at which both have a value
    for point in points(names):
        ratio = Apply("/", (_at(left, point), _at(right, point)))
        if ratios:
            try:
                _, _, agree = _compared(ratio, ratios[0], {})
            except Undefined:
                continue
            if not agree:
                return None
        ratios.append(ratio)
    if len(ratios) < _LEAST_COMPARED:
        return None
    value, _ = evaluate(ratios[0], {})
    return value


def _at(expression: Expression, point: Mapping[str, Fraction]) -> Expression:
    """A formula with its variables replaced by numbers."""
    if isinstance(expression, Symbol) and expression.name in point:
        return Number(point[expression.name])
    if isinstance(expression, Apply):
        arguments = tuple(_at(argument, point) for argument in expression.arguments)
        return Apply(expression.operation, arguments)
    return expression


def _compared(
    left: Expression, right: Expression, point: Mapping[str, Fraction]
) -> tuple[Value, Value, bool]:
    """Both values at a point, and whether they are the same.

    Inexact values have enough digits that e^200 + 1 differs from e^200, and e^-200 from 0.
    """
    value, size = evaluate(left, point)
    other_value, other_size = evaluate(right, point)
    if isinstance(value, Fraction) and isinstance(other_value, Fraction):
        return value, other_value, value == other_value
    size = max(size, other_size)
    if size > _LARGEST_SIZE:
        raise Undefined
    digits = 2 * (size + _SPARE_DIGITS)
    if digits > _DIGITS:
        value, _ = evaluate(left, point, digits)
        other_value, _ = evaluate(right, point, digits)
    with mpmath.workdps(digits):
        least = mpmath.mpf(10) ** -(size + _SPARE_DIGITS)
        agree = bool(abs(_mpmath(value) - _mpmath(other_value)) < least)
    return value, other_value, agree


def _real(value: Value) -> bool:
    """Whether a value is a real number."""
    return isinstance(value, Fraction) or mpmath.im(value) == 0


def real(value: Value) -> Value | None:
    """A value as a real number of mpmath; None if it is not real."""
    return mpmath.re(_mpmath(value)) if _real(value) else None


def _mentions(names: Sequence[str], formula: Expression) -> bool:
    """Whether a formula has a symbol or an operation of one of these names."""
    if isinstance(formula, Symbol):
        return formula.name in names
    if isinstance(formula, Apply):
        if formula.operation in names:
            return True
        return any(_mentions(names, argument) for argument in formula.arguments)
    return False


Item = TypeVar("Item")


def matched(
    items: Sequence[Item], other_items: Sequence[Item], same: Callable[[Item, Item], bool]
) -> bool:
    """Whether both have the same items, in any order.

    Args:
        same: whether two items are the same.
    """
    left = list(other_items)
    for item in items:
        partner = _place_of(item, left, same)
        if partner is None:
            return False
        del left[partner]
    return not left


def _place_of(item: Item, others: Sequence[Item], same: Callable[[Item, Item], bool]) -> int | None:
    """The index of the first of `others` that is the same as the item; None if there is none."""
    for index, other in enumerate(others):
        if same(item, other):
            return index
    return None


def within(value: Value, centre: Fraction, distance: Fraction) -> bool:
    """Whether a value is real and within a distance of a fraction."""
    if isinstance(value, Fraction):
        return abs(value - centre) <= distance
    with mpmath.workdps(_DIGITS):
        # The real roots of a cubic equation may have an imaginary part that is a rounding error.
        if abs(mpmath.im(value)) > mpmath.mpf(10) ** -_SPARE_DIGITS:
            return False
        return bool(abs(mpmath.re(value) - _mpmath(centre)) <= _mpmath(distance))


def is_multiple(value: Value, unit: Fraction) -> bool:
    """Whether a value is an integer multiple of a unit."""
    if not _real(value):
        return False
    with mpmath.workdps(_DIGITS):
        nearest = int(mpmath.nint(mpmath.re(_mpmath(value)) / _mpmath(unit))) * unit
    return within(value, nearest, Fraction(1, 10**_SPARE_DIGITS))


# --- points ---------------------------------------------------------------------------------------

_LEAST_COMPARED = 2  # points at which two formulas with variables must have values
# The value of a variable is a prime times one of these. At small points, no power hides the other
# terms. Large points are needed because |x - 100| and 100 - x differ only there.
_SCALES = [Fraction(1, 101), Fraction(1, 11), Fraction(3, 7), Fraction(37, 11), Fraction(4001)]
_NEGATIVE_SCALES = [Fraction(1, 109), Fraction(2, 3), Fraction(3989)]


def points(names: set[str]) -> Iterator[dict[str, Fraction]]:
    """Points at which formulas with these variables are compared.

    The variables are positive and of several magnitudes first. Then each of them alone, and all of
    them together, are negative. No value is 0, 1 or equal to another, because different formulas
    may agree there.
    """
    if not names:
        yield {}
        return
    for shift, scale in enumerate(_SCALES):
        yield _point(names, shift, scale)
    for shift, scale in enumerate(_NEGATIVE_SCALES):
        point = _point(names, shift, scale)
        for name in sorted(names):
            yield {**point, name: -point[name]}
        if len(names) > 1:
            yield {name: -value for name, value in point.items()}


def _point(names: set[str], shift: int, scale: Fraction) -> dict[str, Fraction]:
    """A point: for each variable, another prime times the scale. The shift selects the primes."""
    ordered = enumerate(sorted(names))
    return {name: _prime(3 * index + shift % 3) * scale for index, name in ordered}


def _whole_points(names: set[str]) -> Iterator[dict[str, Fraction]]:
    r"""Consecutive integers; at some, such as n = 3, \lfloor n/2 \rfloor is \lfloor n/3 \rfloor."""
    for size in range(1, 40):
        yield {name: Fraction(size + 5 * index) for index, name in enumerate(sorted(names))}


def _prime(index: int) -> int:
    """The prime with this index, or some larger number after the end of the list.

    Sums of a few different numbers of this kind differ.
    """
    return _PRIMES[index] if index < len(_PRIMES) else 300 + 7 * index**2


_PRIMES = (
    (29, 41, 83, 47, 157, 59, 227, 73, 19, 137)
    + (97, 179, 109, 31, 149, 61, 167, 89, 191, 211)
    + (37, 127, 233, 53, 241, 71, 197, 257, 113, 269)
)
