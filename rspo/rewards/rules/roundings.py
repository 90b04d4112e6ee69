r"""Formulas with rounded decimals: 3.14, and 1.41x + 1 for \sqrt{2} x + 1."""

from fractions import Fraction

from rspo.rewards.rules import numerals, values
from rspo.rewards.rules.expressions import Apply, Expression, Number
from rspo.rewards.rules.numerals import Decimal
from rspo.rewards.rules.values import Undefined, Value

_MOST_TERMS = 20
_ONE = Number(Fraction(1))


def is_rounding(rounded: Decimal, value: Value) -> bool:
    """Whether a decimal is a value rounded to the decimal's last digit.

    A value that so many digits can represent exactly must not be rounded: 0.2499 for 1/4.
    """
    if not rounded.may_be_rounded or values.is_multiple(value, rounded.unit):
        return False
    if values.within(value, rounded.value, rounded.unit / 2):
        return True
    # With four digits or more, the decimal may be truncated: 0.6666.
    further = rounded.unit / 2 if rounded.value > 0 else -rounded.unit / 2
    return rounded.digits >= 4 and values.within(value, rounded.value + further, rounded.unit / 2)


def same(one: Expression, other: Expression) -> bool:
    """Whether one of two formulas is the other with some constants as rounded decimals."""
    if _has_decimals(one) == _has_decimals(other):
        return False
    return _same(other, one) if _has_decimals(one) else _same(one, other)


def _same(exact: Expression, rounded: Expression) -> bool:
    if values.same(exact, rounded):
        return True
    if not _has_decimals(rounded):
        return False
    one, other = _terms(exact), _terms(rounded)
    if len(other) > 1:
        return len(other) <= _MOST_TERMS and values.matched(one, other, _same)
    if (parts := _coefficient(rounded)) is not None:
        ratio = _ratio(exact, parts[1])
        written = numerals.decimal((parts[0].written,))
        return ratio is not None and written is not None and is_rounding(written, ratio)
    if not (isinstance(exact, Apply) and isinstance(rounded, Apply)):
        return False
    alike = exact.operation == rounded.operation
    pairs = zip(exact.arguments, rounded.arguments, strict=False)
    return (
        alike
        and len(exact.arguments) == len(rounded.arguments)
        and all(_same(argument, other) for argument, other in pairs)
    )


def _has_decimals(expression: Expression) -> bool:
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
    """A decimal that is a factor of a term, and the term with 1 in its place."""
    if isinstance(term, Number):
        return (term, _ONE) if term.written else None
    if isinstance(term, Apply) and term.operation in ("*", "negate", "/", r"\frac"):
        factors = len(term.arguments) if term.operation == "*" else 1
        for index, argument in enumerate(term.arguments[:factors]):
            if (found := _coefficient(argument)) is not None:
                before, after = term.arguments[:index], term.arguments[index + 1 :]
                return found[0], Apply(term.operation, (*before, found[1], *after))
    return None


def _ratio(exact: Expression, rest: Expression) -> Value | None:
    """The constant c in exact = c * rest; None if there is none."""
    if values.symbols(exact) | values.symbols(rest):
        return values.constant_ratio(exact, rest)
    try:
        return values.evaluate(Apply("/", (exact, rest)), {})[0]
    except Undefined:
        return None
