r"""Whether two quantities are the same: `0.5\text{ cm}`, `\frac{1}{2}` and `50\%`.

A quantity is a value with or without a unit. A unit that only one side gives is ignored, because
the question usually gives it. Two different units make two answers different. Percents and degrees
are units that also have a value.
"""

from rspo.rewards.rules import answers, dates, numerals, roundings, symbolic, units, values
from rspo.rewards.rules.expressions import Apply, Expression, TooDeep, Unreadable, read
from rspo.rewards.rules.notation import TEXT, Tokens
from rspo.rewards.rules.numerals import Decimal, decimal

_PERCENT = (r"\%",)
_DEGREE = (r"\degree",)
_OMISSION = (r"\ldots",)


def same(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two quantities are the same."""
    gold = _ratio(tuple(map(numerals.without_noise, gold)))
    prediction = _ratio(tuple(map(numerals.without_noise, prediction)))
    if gold == prediction:
        return True
    parts = units.parts(gold)
    other_parts = units.parts(prediction)
    if len(parts) > 1 or len(other_parts) > 1:
        return len(parts) == len(other_parts) and all(map(same, parts, other_parts))
    # A base may be left out, as a unit may: 204 is 204_5, and 204_6 is not.
    digits_and_base = _in_base(gold)
    if digits_and_base is not None:
        digits, _ = digits_and_base
        return prediction == digits or _in_base(prediction) == digits_and_base
    value, unit = _value_and_unit(gold)
    other_value, other_unit = _value_and_unit(prediction)
    if not other_unit:
        other_value = units.without_bare_unit(other_value, unit)
    elif not unit:
        value = units.without_bare_unit(value, other_unit)
    if units.differ(unit, other_unit):
        return False
    if units.is_half_of_day(unit) or units.is_half_of_day(other_unit):
        value = dates.as_time(value)
        other_value = dates.as_time(other_value)
    if same_value(value, other_value):
        return True
    if unit and other_unit:
        return False
    # One side has no unit: 50 % is also 0.5, and 90 degrees are also pi/2.
    percent = _PERCENT in (unit, other_unit)
    degrees = _DEGREE in (unit, other_unit)
    if percent or (degrees and r"\pi" in value + other_value):
        return same_value(_times_unit(value, unit), _times_unit(other_value, other_unit))
    return False


def has_number(tokens: Tokens) -> bool:
    """Whether the value of a quantity is a number, in digits or in words: `seven hours`."""
    value, _ = _value_and_unit(tokens)
    return decimal(value) is not None


def _value_and_unit(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The value and the unit of a quantity. Either may be empty. Numbers in words become digits."""
    value, unit = units.split(numerals.in_digits(tokens))
    return numerals.in_digits(value), unit


def _ratio(tokens: Tokens) -> Tokens:
    """The ratio `3 to 4` as 3 : 4; any other tokens as they are."""
    signs = set(tokens[1::2])
    if not signs or not signs <= {"to", TEXT + "to"} or not all(map(str.isdigit, tokens[::2])):
        return tokens
    return tuple(":" if token in signs else token for token in tokens)


def _in_base(tokens: Tokens) -> tuple[Tokens, Tokens] | None:
    """The digits and the base of a number such as 204_5; None for any other tokens."""
    if "_" not in tokens[1:3]:
        return None
    place = tokens.index("_")
    digits = tokens[:place]
    base = tuple(token for token in tokens[place + 1 :] if token not in ("{", "}"))
    if not digits or len(base) != 1:
        return None
    numeric = digits[-1][0].isdigit() and digits[:-1] in ((), ("-",))
    return (digits, base) if numeric else None


def _times_unit(tokens: Tokens, unit: Tokens) -> Tokens:
    """The value of a quantity, times its unit if the unit is a percent or degree sign."""
    if unit == _PERCENT and decimal(tokens):
        return tokens + ("*", "10", "^", "-", "2")
    if unit in (_PERCENT, _DEGREE):
        return ("(",) + tokens + (")",) + unit
    return tokens


def same_value(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two formulas have the same value, or one is a decimal to which the other rounds."""
    if gold == prediction:
        return bool(gold)
    verdict = dates.same(gold, prediction)
    if verdict is not None:
        return verdict
    if ":" in gold + prediction:
        terms = answers.split(gold, (":",))
        other_terms = answers.split(prediction, (":",))
        # With two terms, a ratio is also a value: 3:4 is 3/4.
        if len(terms) > 2 or len(other_terms) > 2:
            return _proportional(terms, other_terms)
    if gold[-1:] == _OMISSION or prediction[-1:] == _OMISSION:
        return _is_truncated(prediction, gold) or _is_truncated(gold, prediction)
    number = decimal(gold)
    other_number = decimal(prediction)
    if number and other_number:
        return numerals.is_rounded(number, other_number)
    if _has_other_words(gold, prediction) or _has_other_words(prediction, gold):
        return False
    try:
        formula = read(gold)
        other_formula = read(prediction)
    except TooDeep:
        return False
    except Unreadable:  # an integral or a sum, for example
        return symbolic.same(gold, prediction)
    if values.same(formula, other_formula):
        return True
    if number:
        return _is_rounding(number, prediction)
    if other_number:
        return _is_rounding(other_number, gold)
    return roundings.same(formula, other_formula)


def _proportional(terms: list[Tokens], other_terms: list[Tokens]) -> bool:
    """Whether two ratios of several terms are the same: 1:2:3 and 2:4:6.

    A ratio with a term that is 0 equals only itself.
    """
    if len(terms) != len(other_terms):
        return False
    factors: list[Expression] = []
    try:
        for term, other in zip(terms, other_terms, strict=True):
            factors.append(Apply("/", (read(term), read(other))))
    except (Unreadable, TooDeep):
        return False
    return all(values.same(factor, factors[0]) for factor in factors)


def _is_rounding(rounded: Decimal, tokens: Tokens) -> bool:
    """Whether a decimal is the rounded value of a formula without variables or decimals."""
    if any("." in token for token in tokens):
        return False
    value = values.constant(tokens)
    return value is not None and roundings.is_rounding(rounded, value)


def _is_truncated(truncated: Tokens, exact: Tokens) -> bool:
    r"""Whether a decimal that goes on, such as 0.333\ldots, has the first digits of a formula.

    A number whose digits end, such as 0.333, does not go on.
    """
    if truncated[-1:] != _OMISSION:
        return False
    number = decimal(truncated[:-1])
    value = values.constant(exact)
    if number is None or value is None or decimal(exact) is not None:
        return False
    return roundings.is_truncation(number, value)


def _has_other_words(tokens: Tokens, other: Tokens) -> bool:
    """Whether a formula has a word that changes a value, with letters that the other has not.

    As products of letters, `not 0` and `half of 0` would be 0.
    """
    letters = set("".join(other))
    words = [token for token in tokens if token.isalpha() and len(token) > 1]
    return any(units.has_meaning(word) and not letters.issuperset(word) for word in words)
