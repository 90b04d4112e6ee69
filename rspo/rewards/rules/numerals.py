r"""Reads written numbers: decimals with their digits, powers of ten, and numbers in words."""

from dataclasses import dataclass
from decimal import Decimal as BigDecimal
from fractions import Fraction

from rspo.rewards.rules.notation import TEXT, Tokens

_RELIABLE_DIGITS = 15  # significant digits of a float that survive printing
_LARGEST_EXPONENT = 5000  # exponent of a power of ten; bounds the time of exact arithmetic


@dataclass(frozen=True)
class Decimal:
    """A written number.

    value: the number itself.
    unit: the value of its last decimal place, 0.01 for 4.50. The unit of an integer, a power of ten
        above it, is not used.
    digits: the number of its significant digits; 0 for an integer, which is never rounded.
    """

    value: Fraction
    unit: Fraction
    digits: int

    @property
    def may_be_rounded(self) -> bool:
        """Whether it may stand for a value with more digits.

        It may if it has a decimal point and at least three significant digits. Two suffice if the
        last is worth 0.01 or less: 0.33 may, 0.05 and 3.3 may not. An integer may not: 3 is not pi,
        and 86 is not 600/7.
        """
        return self.digits >= 3 or (self.digits == 2 and self.unit <= Fraction(1, 100))


def decimal(tokens: Tokens) -> Decimal | None:
    r"""Read a number, perhaps with a sign and a power of ten: -4.50, 4.5e33, 4.5 * 10^{33}.

    Returns: None for any other tokens, and for huge exponents.
    """
    sign = -1 if tokens[:1] == ("-",) else 1
    if tokens[:1] in (("-",), ("+",)):
        tokens = tokens[1:]
    # Reject digits of other scripts, which `isdigit` and `Fraction` accept.
    if not tokens or not tokens[0].isascii() or not tokens[0].strip(".")[:1].isdigit():
        return None
    exponent = _power_of_ten(tokens[1:])
    if exponent is None:
        return None
    mantissa, _, own_exponent = tokens[0].lower().partition("e")
    # An exponent within `_LARGEST_EXPONENT` needs no more than a sign and four digits.
    if tokens[0].endswith(".") or len(own_exponent) > 5:
        return None
    exponent += int(own_exponent or 0)
    if abs(exponent) > _LARGEST_EXPONENT:
        return None
    scale = Fraction(10) ** exponent
    value = sign * Fraction(mantissa) * scale
    places = len(mantissa.partition(".")[2])
    digits = len(mantissa.replace(".", "").lstrip("0"))
    if places == 0:
        return Decimal(value, scale * 10**digits, 0)
    return Decimal(value, scale / 10**places, digits)


def without_noise(token: str) -> str:
    """A decimal without the rounding errors of a printed float: 0.3 for 0.30000000000000004.

    Floats are printed with up to 17 significant digits, of which 15 are reliable. Any other token
    stays as it is.
    """
    mantissa, sign, exponent = token.lower().partition("e")
    before, _, after = mantissa.partition(".")
    surplus = len((before + after).lstrip("0")) - _RELIABLE_DIGITS
    if not token.isascii() or not token[0].isdigit() or not 1 <= surplus <= min(2, len(after)):
        return token
    return f"{BigDecimal(mantissa):.{len(after) - surplus}f}" + sign + exponent


def _power_of_ten(tokens: Tokens) -> int | None:
    """The exponent -3 of `* 10 ^ { - 3 }`; 0 for no tokens; None for any other tokens."""
    if not tokens:
        return 0
    if tokens[:3] not in (("*", "10", "^"), ("x", "10", "^")):
        return None
    power = "".join(tokens[3:]).removeprefix("{").removesuffix("}")
    digits = power.lstrip("+-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 5):
        return None
    signs = len(power) - len(digits)
    return int(power) if signs < 2 else None


def is_rounded(gold: Decimal, prediction: Decimal) -> bool:
    """Whether two decimals are equal, or the prediction is gold rounded to four digits or more."""
    if gold.value == prediction.value:
        return True
    if not 4 <= prediction.digits < gold.digits:
        return False
    return abs(gold.value - prediction.value) <= prediction.unit / 2


# --- words ----------------------------------------------------------------------------------------

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {
    **{word: value for value, word in enumerate(_ONES.split())},
    **{word: 10 * value for value, word in enumerate(_TENS.split(), start=2)},
}
_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_ORDINALS = {
    **{word + "th": word for word in _ONES.split()},
    **{word.removesuffix("y") + "ieth": word for word in _TENS.split()},
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
WORDS = frozenset(_VALUES) | frozenset(_POWERS) | {"hundred"}


def in_digits(tokens: Tokens) -> Tokens:
    """Write a number in words with digits; any other tokens stay as they are.

    four, fourth -> 4, twenty-five -> 25, 3 million -> 3 * 10^6, infinitely many -> infinity.
    """
    words = [token.removeprefix(TEXT).lower() for token in tokens]
    words = words[:1] + [word for word in words[1:] if word != "-"]
    if words:
        words[-1] = _ORDINALS.get(words[-1], words[-1])
    if words in (["infinite"], ["infinitely", "many"]):
        return (r"\infty",)
    if words[:1] in (["minus"], ["negative"]) and len(words) > 1:
        rest = in_digits(tokens[1:])
        return ("-",) + rest if decimal(rest) is not None and rest[0] != "-" else tokens
    value = _number_in_words(words)
    if value is not None:
        return (str(value),)
    if len(words) > 1 and words[-1] in _POWERS and decimal(tokens[:-1]):
        return tokens[:-1] + ("*", "10", "^", str(_POWERS[words[-1]]))
    return tokens


def _number_in_words(words: list[str]) -> int | None:
    """The number that words denote; None for other words, such as five two.

    two hundred and five thousand six -> 205006.
    """
    if words == ["zero"]:
        return 0
    total = 0
    part = 0  # the number since the last word of `_POWERS`, such as thousand
    largest = max(_POWERS.values()) + 1  # exponent of the last power; exponents must decrease
    for word in words:
        value = _VALUES.get(word, 0)
        after_hundred = part % 100 == 0
        after_tens = value < 10 and part % 100 >= 20 and part % 10 == 0
        if value and (after_hundred or after_tens):
            part += value
        elif word == "hundred" and 0 < part < 100:
            part *= 100
        elif part and _POWERS.get(word, largest) < largest:
            largest = _POWERS[word]
            total += part * 10**largest
            part = 0
        elif word != "and":
            return None
    return total + part if words and words[0] in _VALUES else None
