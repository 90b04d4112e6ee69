r"""Compares formulas with rounded decimals: 3.14 for \pi, and 1.41x + 1 for \sqrt{2} x + 1."""

from fractions import Fraction

from rspo.rewards.rules import numerals, values
from rspo.rewards.rules.expressions import Apply, Expression, Number
from rspo.rewards.rules.numerals import Decimal
from rspo.rewards.rules.values import Undefined, Value

_MOST_TERMS = 20  # summands; comparing them takes quadratic time
_NUMBER_ONE = Number(Fraction(1))


def is_rounding(rounded: Decimal, value: Value) -> bool:
    """Whether a decimal is a value that has further digits and was rounded to those of the decimal.

    A decimal that equals the value is none: callers compare exact values first. So 0.3333 is a
    rounding of 1/3, and neither 0.25 nor 0.2499 is one of 1/4.
    """
    if not rounded.may_be_rounded or values.is_multiple(value, rounded.unit):
        return False
    if values.within(value, rounded.value, rounded.unit / 2):
        return True
    # With four digits or more, the decimal may be truncated, as 0.6666 for 2/3.
    return rounded.digits >= 4 and is_truncation(rounded, value)


def is_truncation(truncated: Decimal, value: Value) -> bool:
    """Whether a value has further digits after those of a decimal, as 2/3 has after 0.66.

    The value is then between the decimal and the next decimal away from 0.
    """
    if not truncated.may_be_rounded or values.is_multiple(value, truncated.unit):
        return False
    further = truncated.unit / 2 if truncated.value > 0 else -truncated.unit / 2
    return values.within(value, truncated.value + further, truncated.unit / 2)


def same(formula: Expression, other: Expression) -> bool:
    """Whether two formulas are the same if some constants of one are rounded to decimals.

    Exactly one of them must have decimals.
    """
    if _has_decimals(formula) == _has_decimals(other):
        return False
    if _has_decimals(formula):
        return _is_rounded(other, formula)
    return _is_rounded(formula, other)


def _is_rounded(exact: Expression, rounded: Expression) -> bool:
    """Whether the second formula is the first one with some constants as rounded decimals.

    Both are compared term by term, in any order. If a term of the second formula is a decimal times
    a rest, the term of the first formula, divided by this rest, must round to the decimal. Other
    terms are compared argument by argument.
    """
    if values.same(exact, rounded):
        return True
    if not _has_decimals(rounded):
        return False
    terms = _terms(rounded)
    if len(terms) > 1:
        return len(terms) <= _MOST_TERMS and values.matched(_terms(exact), terms, _is_rounded)
    coefficient_and_rest = _coefficient(rounded)
    if coefficient_and_rest is not None:
        coefficient, rest = coefficient_and_rest
        ratio = _ratio(exact, rest)
        decimal = numerals.decimal((coefficient.written,))
        return ratio is not None and decimal is not None and is_rounding(decimal, ratio)
    if not (isinstance(exact, Apply) and isinstance(rounded, Apply)):
        return False
    if exact.operation != rounded.operation or len(exact.arguments) != len(rounded.arguments):
        return False
    return all(map(_is_rounded, exact.arguments, rounded.arguments))


def _has_decimals(expression: Expression) -> bool:
    """Whether a formula has a number that is written with a decimal point."""
    if isinstance(expression, Apply):
        return any(map(_has_decimals, expression.arguments))
    return isinstance(expression, Number) and bool(expression.written)


def _terms(expression: Expression) -> list[Expression]:
    """The summands of a formula."""
    if not isinstance(expression, Apply) or expression.operation not in ("+", "-"):
        return [expression]
    left, right = map(_terms, expression.arguments)
    if expression.operation == "-":
        right = [Apply("negate", (term,)) for term in right]
    return left + right


def _coefficient(term: Expression) -> tuple[Number, Expression] | None:
    """A decimal that is a factor of a term, and the term with 1 in its place; None without one."""
    if isinstance(term, Number):
        return (term, _NUMBER_ONE) if term.written else None
    if not isinstance(term, Apply) or term.operation not in ("*", "negate", "/", r"\frac"):
        return None
    # A decimal in a denominator is no factor.
    factors = len(term.arguments) if term.operation == "*" else 1
    for index, argument in enumerate(term.arguments[:factors]):
        coefficient_and_rest = _coefficient(argument)
        if coefficient_and_rest is not None:
            coefficient, rest = coefficient_and_rest
            arguments = list(term.arguments)
            arguments[index] = rest
            return coefficient, Apply(term.operation, tuple(arguments))
    return None


def _ratio(exact: Expression, rest: Expression) -> Value | None:
    """The constant c for which exact = c * rest; None if there is none."""
    if values.symbols(exact) | values.symbols(rest):
        return values.constant_ratio(exact, rest)
    try:
        return values.evaluate(Apply("/", (exact, rest)), {})[0]
    except Undefined:
        return None
