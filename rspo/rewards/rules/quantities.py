r"""A value with or without a unit: whether `0.5\text{ cm}`, `\frac{1}{2}` and `50\%` are the same.

A unit that only one side gives is ignored, because the question usually gives it. Two different
units make two answers different. Percents and degrees are units that also have a value.
"""

from rspo.rewards.rules import numerals, roundings, symbolic, units, values
from rspo.rewards.rules.expressions import TooDeep, Unreadable, read
from rspo.rewards.rules.notation import Tokens
from rspo.rewards.rules.numerals import Decimal, decimal

_PERCENT, _DEGREE = (r"\%",), (r"\degree",)


def same(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two quantities are the same."""
    if gold == prediction:
        return True
    if (digits := _in_base(gold)) is not None:
        return digits[0] == prediction or digits == _in_base(prediction)
    one, unit = _value_and_unit(gold)
    other, other_unit = _value_and_unit(prediction)
    if units.differ(unit, other_unit):
        return False
    if same_value(one, other):
        return True
    if unit and other_unit:
        return False
    if _PERCENT in (unit, other_unit) or (_DEGREE in (unit, other_unit) and r"\pi" in one + other):
        return same_value(_times_unit(one, unit), _times_unit(other, other_unit))
    return False


def _value_and_unit(tokens: Tokens) -> tuple[Tokens, Tokens]:
    value, unit = units.split(numerals.in_digits(tokens))
    return numerals.in_digits(value), unit


def _in_base(tokens: Tokens) -> tuple[Tokens, Tokens] | None:
    """The digits and the base of 204_5; None for any other tokens."""
    if "_" not in tokens[1:3]:
        return None
    digits, base = tokens[: tokens.index("_")], tokens[tokens.index("_") + 1 :]
    if not digits:
        return None
    base = tuple(token for token in base if token not in ("{", "}"))
    numeric = digits[-1][0].isdigit() and digits[:-1] in ((), ("-",))
    return (digits, base) if len(base) == 1 and numeric else None


def _times_unit(tokens: Tokens, unit: Tokens) -> Tokens:
    """A percentage or a number of degrees as a pure number."""
    if unit == _PERCENT and decimal(tokens):
        return (*tokens, "*", "10", "^", "-", "2")
    return ("(", *tokens, ")", *unit) if unit in (_PERCENT, _DEGREE) else tokens


def same_value(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two formulas have the same value, or one is the other rounded to a decimal."""
    if gold == prediction:
        return bool(gold)
    one, other = decimal(gold), decimal(prediction)
    if one and other:
        return numerals.is_rounded(one, other)
    try:
        if values.same(read(gold), read(prediction)):
            return True
    except TooDeep:
        return False
    except Unreadable:
        return symbolic.same(gold, prediction)
    if one or other:
        rounded, exact = (one, prediction) if one else (other, gold)
        return rounded is not None and _is_rounding(rounded, exact)
    return roundings.same(read(gold), read(prediction))


def _is_rounding(rounded: Decimal, tokens: Tokens) -> bool:
    """Whether a decimal is an exact constant, rounded."""
    value = None if any("." in token for token in tokens) else values.constant(tokens)
    return value is not None and roundings.is_rounding(rounded, value)
