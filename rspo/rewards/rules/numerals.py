r"""Written numbers: decimals with their digits, powers of ten, number words."""

from dataclasses import dataclass
from fractions import Fraction

from rspo.rewards.rules.notation import TEXT, Tokens

_LARGEST_EXPONENT = 5000  # of ten


@dataclass(frozen=True)
class Decimal:
    """A written number: its value, the value of its last decimal place, its significant digits."""

    value: Fraction
    unit: Fraction
    digits: int

    @property
    def may_be_rounded(self) -> bool:
        """It has a point, and three significant digits or two decimal places as in 0.33.

        An integer is never a rounded value: 3 is not pi, and 86 is not 600/7.
        """
        return self.digits >= 3 or (self.digits == 2 and self.unit <= Fraction(1, 100))


def decimal(tokens: Tokens) -> Decimal | None:
    r"""A sign, a number and perhaps a power of ten: -4.50, 4.5e33, 4.5 * 10^{33}."""
    sign = -1 if tokens[:1] == ("-",) else 1
    tokens = tokens[1:] if tokens[:1] in (("-",), ("+",)) else tokens
    if not tokens or not tokens[0].isascii() or not tokens[0].strip(".")[:1].isdigit():
        return None
    exponent = _power_of_ten(tokens[1:])
    if exponent is None:
        return None
    mantissa, _, written = tokens[0].lower().partition("e")
    if tokens[0].endswith(".") or len(written) > 5:
        return None
    exponent += int(written or 0)
    places = len(mantissa.partition(".")[2])
    digits = len(mantissa.replace(".", "").lstrip("0"))
    if abs(exponent) > _LARGEST_EXPONENT:
        return None
    scale = Fraction(10) ** exponent
    unit = scale / 10**places if places else scale * 10 ** max(0, digits)
    return Decimal(sign * Fraction(mantissa) * scale, unit, digits if places else 0)


def _power_of_ten(tokens: Tokens) -> int | None:
    """The exponent in `* 10 ^ { - 3 }`; 0 for no tokens, None for others."""
    if not tokens:
        return 0
    if tokens[:3] not in (("*", "10", "^"), ("x", "10", "^")):
        return None
    power = "".join(tokens[3:]).removeprefix("{").removesuffix("}")
    digits = power.lstrip("+-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 5):
        return None
    return int(power) if len(power) - len(digits) < 2 else None


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
_VALUES = {word: value for value, word in enumerate(_ONES.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_ORDINALS = {
    **{word + "th": word for word in _ONES.split()},
    **{word.removesuffix("y") + "ieth": word for word in _TENS.split()},
    **{"first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight"},
    **{"ninth": "nine", "twelfth": "twelve"},
}
WORDS = frozenset({*_VALUES, *_POWERS, "hundred"})


def in_digits(tokens: Tokens) -> Tokens:
    """four, fourth -> 4, twenty-five -> 25, 3 million -> 3 * 10^6, infinitely many -> infinity."""
    words = [token.removeprefix(TEXT).lower() for token in tokens]
    words = [word for index, word in enumerate(words) if word != "-" or index == 0]
    words = [*words[:-1], *(_ORDINALS.get(word, word) for word in words[-1:])]
    if words in (["infinite"], ["infinitely", "many"]):
        return (r"\infty",)
    if (value := _number_in_words(words)) is not None:
        return (str(value),)
    if len(words) > 1 and words[-1] in _POWERS and decimal(tokens[:-1]):
        return (*tokens[:-1], "*", "10", "^", str(_POWERS[words[-1]]))
    return tokens


def _number_in_words(words: list[str]) -> int | None:
    """two hundred and five thousand six -> 205006; None for other words, such as five two."""
    if words == ["zero"]:
        return 0
    total = part = 0
    largest = max(_POWERS.values()) + 1
    for word in words:
        value = _VALUES.get(word, 0)
        if value and (part % 100 == 0 or (value < 10 and part % 100 >= 20 and part % 10 == 0)):
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
