r"""One value with or without its unit: when `0.5\text{ cm}`, `\frac{1}{2}` and `50\%` are the same.

A unit that only one side names is no difference, for the question has named it; two units that are
not the same one are. Percents and degrees are units that also have a value.
"""

from dataclasses import dataclass
from fractions import Fraction

from rspo.rewards import expressions, symbolic
from rspo.rewards.expressions import Undefined, Unreadable
from rspo.rewards.notation import TEXT, Tokens

# --- decimals -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decimal:
    """A number as written: its value, that of its last digit, and how many digits count."""

    value: Fraction
    unit: Fraction
    digits: int

    @property
    def may_be_rounded(self) -> bool:
        """With a point, and three digits, or two behind the point as in 0.33.

        An integer is never a rounding: 3 is not pi, and 86 not 600/7.
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
    if abs(exponent) > 5000:
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


def _is_rounding(rounded: Decimal, tokens: Tokens) -> bool:
    """Whether a decimal is an exact constant, rounded to the decimal's own last digit."""
    if not rounded.may_be_rounded or any("." in token for token in tokens):
        return False
    try:
        value = expressions.evaluate(expressions.read(tokens), {})
    except (Unreadable, Undefined, KeyError):
        return False
    # From four digits on, 0.6666 may also be cut off instead of rounded.
    tolerance = rounded.unit if rounded.digits >= 4 else rounded.unit / 2
    return expressions.within(value, rounded.value, tolerance)


def _agree(one: Decimal, other: Decimal) -> bool:
    """Whether two decimals are equal, or the shorter one is the longer one, rounded."""
    shorter, longer = sorted((one, other), key=lambda number: number.digits)
    if shorter.digits < 4:
        return one.value == other.value
    return abs(one.value - other.value) <= (
        shorter.unit / 2 if longer.digits > shorter.digits else 0
    )


# --- units ----------------------------------------------------------------------------------------

_UNITS = {
    "m": "meter metre meters metres",
    "cm": "centimeter centimetre centimeters centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "km": "kilometer kilometers kilometre kilometres",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yards",
    "mi": "mile miles",
    "kg": "kilogram kilograms",
    "g": "gram grams",
    "lb": "lbs pound pounds",
    "s": "sec secs second seconds",
    "min": "minute minutes mins",
    "h": "hr hrs hour hours",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "dollar": "dollars",
    "cent": "cents",
    "euro": "euros",
    "mph": "",
    "unit": "units",
    "L": "liter liters litre litres",
    "mL": "ml milliliter milliliters",
    "rad": "radian radians",
    "N": "newton newtons",
    "J": "joule joules",
    "W": "watt watts",
    "V": "volt volts",
    "Hz": "hertz",
    "erg": "ergs",
    "K": "kelvin",
    r"\%": "",
    r"\degree": "",
}
_CANONICAL = {name: unit for unit, names in _UNITS.items() for name in (unit, *names.split())}
_BARE = {name for name in _CANONICAL if len(name) > 1 and name.isalpha()}
_ORDINALS = ("th", "st", "nd", "rd")
# Words that change what is said, so that they are no unit and no remark.
_MEANINGFUL = set(
    "or and not no nor neither either if unless when except but then else than to from between "
    "of off over by times plus minus divided multiplied squared cubed half third quarter double "
    "twice triple hundred thousand million billion trillion dozen pi factorial mod modulo base "
    "less more least most at about around approximately maybe possibly wrong incorrect false "
    "undefined negative positive any all every some none without greater smaller increasing "
    "decreasing infinity e i isn t doesn never different other".split()
)
_SCALES = {
    "hundred": 2,
    "thousand": 3,
    "million": 6,
    "billion": 9,
    "trillion": 12,
}


def split_unit(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The value and the unit, canonical, of a quantity; either may be everything."""
    if not tokens:
        return (), ()
    if len(tokens) > 1 and tokens[0] in (TEXT + "dollar", TEXT + "euro", TEXT + "pound"):
        return tokens[1:], (tokens[0][1:],)
    if len(tokens) > 2 and tokens[0] == "-" and tokens[1] == TEXT + "dollar":
        return ("-", *tokens[2:]), ("dollar",)
    if tokens[0].isdigit() and tokens[1:2] and tokens[1].removeprefix(TEXT) in _ORDINALS:
        return tokens[:1], ()
    for start in range(1, len(tokens)):
        if tokens[start] == r"\degree" and not expressions.FUNCTIONS.isdisjoint(tokens[:start]):
            continue  # sin 30 degrees is no number of degrees
        if _starts_unit(tokens[start]) and _is_unit(tokens[start:]):
            body = tokens[:start]
            if body[-1:] == ("*",):
                body = body[:-1]
            return body, _canonical_unit(tokens[start:])
    return tokens, ()


def _starts_unit(token: str) -> bool:
    if token.startswith(TEXT):
        return token[1:] not in ("e", "i")
    return token in _BARE or token in (r"\%", r"\degree", r"\min") or _looks_like_a_word(token)


def _looks_like_a_word(token: str) -> bool:
    """Four letters or more with a vowel: nobody multiplies variables like that."""
    return (
        len(token) > 3
        and token.isascii()
        and token.isalpha()
        and any(vowel in token for vowel in "aeiou")
        and list(token) != sorted(token)
    )


def _is_unit(tokens: Tokens) -> bool:
    if sum(token in (r"\%", r"\degree") for token in tokens) > 1:
        return False
    in_exponent = False
    for token in tokens:
        word = token.removeprefix(TEXT).lower()
        if word in _MEANINGFUL and token not in ("i", "e"):
            return False
        if token.startswith(TEXT) or token in _CANONICAL or _looks_like_a_word(token):
            in_exponent = False
        elif token == "^":
            in_exponent = True
        elif token.isdigit() or token == "-":
            if not in_exponent:
                return False
        elif token not in ("{", "}", "/", "*", ".", "C", "F", r"\min", "'", "(", ")"):
            return False
    return True


def _canonical_unit(tokens: Tokens) -> Tokens:
    words = [token.removeprefix(TEXT) for token in tokens if token not in ("{", "}", ".", "*")]
    words = ["min" if word == r"\min" else word for word in words]
    if words[:1] in (["square"], ["sq"]):
        words = [*words[1:], "^", "2"]
    elif words[:1] in (["cubic"], ["cu"]):
        words = [*words[1:], "^", "3"]
    return tuple(_CANONICAL.get(word, word) for word in words if word not in ("(", ")"))


def _units_differ(one: Tokens, other: Tokens) -> bool:
    """Two known units that are not the same; a remark instead of a unit is no difference."""
    known = all(word in _UNITS or not word.isalpha() for word in one + other)
    return bool(one and other) and known and one != other


# --- equality -------------------------------------------------------------------------------------

_NUMBER_WORDS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), start=3)
}


def _without_number_words(tokens: Tokens) -> Tokens:
    """four -> 4, twenty-five -> 25, 3 million -> 3 * 10^6, infinitely many -> infinity."""
    words = [token.removeprefix(TEXT).lower() for token in tokens if token != "-"]
    if words and all(word.isalpha() for word in words):
        if words[:1] == ["infinitely"] or words == ["infinite"]:
            return (r"\infty",)
        value = _number_in_words(words)
        if value is not None:
            return (str(value),)
    if len(words) > 1 and words[-1] in _SCALES and decimal(tokens[:-1]):
        return (*tokens[:-1], "*", "10", "^", str(_SCALES[words[-1]]))
    return tokens


def _number_in_words(words: list[str]) -> int | None:
    total = part = 0
    for word in words:
        if word in _NUMBER_WORDS or word in _TENS:
            part += _NUMBER_WORDS.get(word, 0) + _TENS.get(word, 0)
        elif word == "twenty":
            part += 20
        elif word == "hundred" and part:
            part *= 100
        elif word in _SCALES and part:
            total += part * 10 ** _SCALES[word]
            part = 0
        elif word != "and":
            return None
    return total + part


def same(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two quantities are the same."""
    if gold == prediction:
        return True
    if (digits := _in_base(gold)) is not None:
        return digits[0] == prediction or digits == _in_base(prediction)
    gold, prediction = _without_number_words(gold), _without_number_words(prediction)
    (one, unit), (other, other_unit) = split_unit(gold), split_unit(prediction)
    one, other = _without_number_words(one), _without_number_words(other)
    if _units_differ(unit, other_unit):
        return False
    if same_value(one, other):
        return True
    if unit and other_unit:
        return False
    if r"\%" in unit + other_unit:
        return same_value(_as_value(one, unit), _as_value(other, other_unit))
    if r"\degree" in unit + other_unit and r"\pi" in one + other:
        return same_value(_as_value(one, unit), _as_value(other, other_unit))
    return False


def _in_base(tokens: Tokens) -> tuple[Tokens, Tokens] | None:
    """204_5 as its digits and its base; the question may have named the base already."""
    if "_" not in tokens[1:3]:
        return None
    digits, base = tokens[: tokens.index("_")], tokens[tokens.index("_") + 1 :]
    base = tuple(token for token in base if token not in ("{", "}"))
    numeric = digits[-1][0].isdigit() and digits[:-1] in ((), ("-",))
    return (digits, base) if len(base) == 1 and numeric else None


def _as_value(tokens: Tokens, unit: Tokens) -> Tokens:
    """A percentage or a number of degrees as the number that it is."""
    if unit == (r"\%",):
        return (
            (*tokens, "*", "10", "^", "-", "2") if decimal(tokens) else ("(", *tokens, ")", r"\%")
        )
    if unit == (r"\degree",):
        return ("(", *tokens, ")", r"\degree")
    return tokens


def same_value(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two formulas have the same value, up to the rounding of one to a decimal."""
    if gold == prediction:
        return bool(gold)
    one, other = decimal(gold), decimal(prediction)
    if one and other:
        return _agree(one, other)
    try:
        if expressions.same(expressions.read(gold), expressions.read(prediction)):
            return True
    except Undefined:
        return False
    except Unreadable:
        return symbolic.same(gold, prediction)
    if one:
        return _is_rounding(one, prediction)
    return bool(other) and _is_rounding(other, gold)
