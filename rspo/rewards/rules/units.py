r"""Reads the unit after a value, or a remark in its place: `5\text{ cm}`, `12\text{ ways}`.

Words that change the value or the statement are not units: `7\text{ million}`, `7\text{ or more}`.
"""

from itertools import pairwise

from rspo.rewards.rules import numerals
from rspo.rewards.rules.expressions import FUNCTIONS
from rspo.rewards.rules.notation import TEXT, Tokens

# The canonical name of each unit, and its other names.
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
    "lb": "lbs",
    "pound": "pounds",  # a mass or money, see `differ`
    "s": "sec secs second seconds",
    "min": "minute minutes mins",
    "h": "hr hrs hour hours",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "dollar": "dollars USD",
    "cent": "cents",
    "euro": "euros EUR",
    "GBP": "",
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
    "am": "AM",
    "pm": "PM",
    r"\%": "",
    r"\degree": "",
}
_CANONICAL = {unit: unit for unit in _UNITS}  # every name -> the canonical name
for _unit, _names in _UNITS.items():
    _CANONICAL.update(dict.fromkeys(_names.split(), _unit))
# Names that are units even if they are not running text. A single letter is a variable.
_BARE = {name for name in _CANONICAL if len(name) > 1 and name.isalpha()}
# These are units after a time only: 7am is a product.
_HALVES_OF_DAY = {"am", "AM", "pm", "PM"}
_BARE -= _HALVES_OF_DAY
# Other ways to write a part of a unit, and the words that mean the same.
_ALSO_WRITTEN = {r"\min": ("min",), r"\sec": ("s",), "mph": ("mi", "per", "h"), "/": ("per",)}
# Words of units that are no units themselves.
IN_UNITS = frozenset(("per", "square", "sq", "cubic", "cu"))
# Words before a unit, as in square meter, and the power that they mean.
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
# Other tokens that begin a unit. The short sq and cu may be products.
_STARTS = (r"\%", r"\degree", r"\min", r"\sec", "square", "cubic")
# Signs within a unit, and letters of temperatures.
_SIGNS = ("per", "{", "}", "/", "*", ".", "C", "F", r"\min", r"\sec", "'", "(", ")")
_ORDINALS = ("th", "st", "nd", "rd")
_CURRENCIES = (TEXT + "dollar", TEXT + "euro", TEXT + "GBP")
_POUNDS = ("lb", "GBP")  # the units that the word pound may mean
# Words that change the value or the statement.
_WORDS_WITH_MEANING = (
    "or and not no nor neither either if unless when except but then else than to from between "
    "of off over by times plus minus divided multiplied squared cubed half third quarter double "
    "doubled tripled quadrupled halved negated twice triple dozen score gross "
    "googol googolplex myriad lakh crore kilo mega giga milli bn mn tn mille permille ty teen pi "
    "factorial root reciprocal inverse "
    "opposite halve third fourth fifth eighth ninth twelfth mod modulo base quintuple sextuple "
    "quintupled recurring repeating repeated periodic invalid rejected impossible impermissible "
    "micro nano hecto deca deci centi "
    "less more least most at about around approximately maybe possibly wrong incorrect false "
    "undefined negative positive any all every some none without greater smaller increasing "
    "decreasing infinity e i isn t doesn never different other"
)
_MEANINGFUL = frozenset(_WORDS_WITH_MEANING.split()) | numerals.WORDS
# Words with a meaning that names have too, as in `\text{number of ways} = 7`.
_WORDS_IN_NAMES = "of from to between at by all every over off score and other"
_IN_NAMES = frozenset(_WORDS_IN_NAMES.split())
_ENDINGS = ("s", "th", "ths", "ves", "es")  # endings of plurals and fractions, such as twelfths


def split(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The value and the canonical unit of a quantity. Either may be empty."""
    if not tokens:
        return (), ()
    # A currency before the value.
    if len(tokens) > 1 and tokens[0] in _CURRENCIES:
        return tokens[1:], (tokens[0].removeprefix(TEXT),)
    if len(tokens) > 2 and tokens[0] == "-" and tokens[1] == TEXT + "dollar":
        return ("-",) + tokens[2:], ("dollar",)
    if tokens[0].isdigit():  # 7th, 7th day
        ending, rest = _ending(tokens[1:])
        noun = tuple(word.lower() for word in rest)
        if ending in _ORDINALS and (not noun or (_starts_unit(noun[0]) and _is_unit(noun))):
            return tokens[:1], ()
    # The longest unit: the first place from which on all tokens may belong to it.
    for start in range(1, len(tokens)):
        if tokens[start] == r"\degree" and not FUNCTIONS.isdisjoint(tokens[:start]):
            continue  # sin 30 degrees is not a number of degrees
        after_time = tokens[start] in _HALVES_OF_DAY and ":" in tokens[:start]
        starts_unit = after_time or _starts_unit(tokens[start])
        if starts_unit and _is_unit(tokens[start:]):
            body = tokens[:start]
            if body[-1:] == ("*",):
                body = body[:-1]
            return body, _canonical_unit(tokens[start:])
    return tokens, ()


def parts(tokens: Tokens) -> list[Tokens]:
    """The quantities of an answer such as `2 hours 30 minutes`, `7 R 2` or `3 red 5 blue`.

    A number after a word begins another quantity, and is no factor of a product. There is one part
    if the tokens are anything else.
    """
    if not tokens or not tokens[0][0].isdigit() or "{" in tokens or "(" in tokens:
        return [tokens]
    starts = [0]
    for place in range(len(tokens)):
        if follows_word(tokens, place):
            starts.append(place)
    if len(starts) == 1:
        return [tokens]
    # A letter after a number is a unit if it is the name of one: 2 h 30 min.
    marked = tuple(TEXT + token if token in _CANONICAL else token for token in tokens)
    return [marked[start:end] for start, end in pairwise(starts + [len(tokens)])]


def follows_word(tokens: Tokens, place: int) -> bool:
    r"""Whether the token at this place is a number directly after letters or a word.

    It is not if the letters are an index or exponent, as in \int_0^a 2x, or if a power follows a
    single letter, as in n2^n and 4.5 x 10^3, which are products.
    """
    before = tokens[place - 1] if place else ""
    if not tokens[place][0].isdigit() or before in _CURRENCIES or before in ("and", "or"):
        return False
    if tokens[max(0, place - 2) : place - 1] in (("^",), ("_",)):
        return False
    is_power = tokens[place + 1 : place + 2] == ("^",)
    if is_power and len(before) == 1:
        return False
    return before.removeprefix(TEXT).isalpha()


def _ending(tokens: Tokens) -> tuple[str, Tokens]:
    """The ending after a number, such as the th of 7th, and the tokens after the ending.

    The ending may be raised as an exponent.
    """
    closing: Tokens = ()
    if tokens[:1] == ("^",):
        tokens = tokens[1:]
    if tokens[:1] == ("{",):
        tokens = tokens[1:]
        closing = ("}",)
    if not tokens or tokens[1 : 1 + len(closing)] != closing:
        return "", ()
    return tokens[0].removeprefix(TEXT), tokens[1 + len(closing) :]


def _starts_unit(token: str) -> bool:
    """Whether a token may begin a unit or a remark: a word, the name of a unit, % or degrees."""
    if token.startswith(TEXT):
        return len(token) > 2 or token[1:] in _CANONICAL
    return token in _BARE or token in _STARTS


def is_word(token: str) -> bool:
    """Whether a token is a word of running text, or letters that are unlikely to be a product.

    These are at least four letters with a vowel that are not in alphabetical order, in which
    products are often written.
    """
    if token.startswith(TEXT):
        return len(token) > 2
    if len(token) < 4 or not (token.isascii() and token.isalpha()):
        return False
    return not set("aeiou").isdisjoint(token) and list(token) != sorted(token)


def has_meaning(word: str) -> bool:
    """Whether a word changes the value or the statement, so that it cannot be a unit."""
    word = word.lower()
    stems = {word.removesuffix(ending) for ending in _ENDINGS}
    stems.add(word)
    stems.add(word.removesuffix("ves") + "f")  # halves
    stems.add(word.removesuffix("s").removesuffix("ieth") + "y")  # twentieths
    return not stems.isdisjoint(_MEANINGFUL) or word.removesuffix("s").endswith("illion")


def changes_value(word: str) -> bool:
    """Whether a word before a name changes its value, as in `half of x = 7`."""
    if len(word) < 2 or word.isupper():  # NO may be a segment
        return False
    return has_meaning(word) and word.lower() not in _IN_NAMES


def is_known(word: str) -> bool:
    """Whether a word is the name of a unit."""
    return word in _CANONICAL


def _is_unit(tokens: Tokens) -> bool:
    """Whether all tokens may belong to a unit with its powers, or to a remark: `possible ways`."""
    if sum(token in (r"\%", r"\degree") for token in tokens) > 1:
        return False
    if len(tokens) == 1 and tokens[0] in _POWERS:  # `2 square` is no number of units
        return False
    in_exponent = False  # a number may only follow ^, as in m^{-2}
    for token in tokens:
        if has_meaning(token.removeprefix(TEXT)) and token not in ("i", "e"):
            return False
        if token.startswith(TEXT) or token in _CANONICAL or is_word(token):
            in_exponent = False
        elif token == "^":
            in_exponent = True
        elif token.isdigit() or token == "-":
            if not in_exponent:
                return False
        elif token not in _SIGNS:
            return False
    return True


def _canonical_unit(tokens: Tokens) -> Tokens:
    """The words of a unit by their canonical names: mph as mi per h, square meters as m ^ 2."""
    words: list[str] = []
    for token in tokens:
        if token not in ("{", "}", ".", "*"):
            word = token.removeprefix(TEXT)
            words += _ALSO_WRITTEN.get(word, (word,))
    if words and words[0] in _POWERS:
        words = words[1:] + ["^", _POWERS[words[0]]]
    words = [word for word in words if word not in ("(", ")")]
    return compound(tuple(words)) or tuple(
        _CANONICAL.get(word, word.removesuffix("s")) for word in words
    )


def compound(tokens: Tokens) -> Tokens:
    """A unit of several units by their powers, in alphabetical order: m/s and m s^{-1} as m, s^-1.

    Returns: an empty unit if the tokens are anything else.
    """
    words = []
    for token in _with_slash(tokens):
        if token not in ("{", "}", "*", "(", ")"):
            words.append(token.removeprefix(TEXT).replace(r"\sec", "s"))
    powers: dict[str, int] = {}
    sign = 1  # of the power of the next unit
    last = ""
    place = 0
    while place < len(words):
        word = words[place]
        if word in ("/", "per") and last and sign == 1:
            sign = -1
        elif word == "^" and last:
            negative = words[place + 1 : place + 2] == ["-"]
            exponent = "".join(words[place + 1 + negative : place + 2 + negative])
            if exponent not in ("1", "2", "3", "4"):
                return ()
            powers[last] *= -int(exponent) if negative else int(exponent)
            place += 1 + negative
        elif word in _CANONICAL:
            last = _CANONICAL[word]
            if last in powers:
                return ()
            powers[last] = sign
            sign = 1
        else:
            return ()
        place += 1
    if len(powers) < 2 or sign == -1:
        return ()
    return tuple(sorted(f"{unit}^{power}" for unit, power in powers.items()))


def _with_slash(tokens: Tokens) -> Tokens:
    r"""A unit such as \frac{m}{s} as m / s; any other tokens as they are."""
    if tokens[:2] != (r"\frac", "{") or "}" not in tokens:
        return tokens
    end = tokens.index("}")
    return tokens[2:end] + ("/",) + tokens[end + 1 :]


def without_bare_unit(tokens: Tokens, unit: Tokens) -> Tokens:
    r"""The value before a unit that is written without \text{}: 5 for `5 m/s` and `5 pm`.

    As a formula, it is a product of letters. It is a unit if the other answer has the same one.

    Args:
        unit: the unit of the other answer.

    Returns: the same tokens if they do not end with this unit.
    """
    if is_half_of_day(unit) and len(tokens) > 1 and _CANONICAL.get(tokens[-1]) == unit[0]:
        return tokens[:-1]
    if len(unit) < 2 or unit not in (compound(tokens[1:]), _canonical_unit(tokens[1:])):
        return tokens
    return tokens[:1]


def is_half_of_day(unit: Tokens) -> bool:
    """Whether a unit is am or pm."""
    return len(unit) == 1 and unit[0] in _HALVES_OF_DAY


def differ(unit: Tokens, other: Tokens) -> bool:
    """Whether two units differ. They do not if either is missing.

    A remark may have further words in front: `ways` and `possible ways` are the same.
    """
    longer, shorter = sorted((unit, other), key=len, reverse=True)
    if not shorter or unit == other:
        return False
    for pound in _POUNDS:
        if "pound" in unit + other and pound in unit + other:
            return differ(_pounds_as(pound, unit), _pounds_as(pound, other))
    before = longer[: -len(shorter)]
    if any(word in _UNITS or word == "per" for word in before):
        return True
    if not "".join(longer).isalpha():
        return True
    return longer[-len(shorter) :] != shorter


def _pounds_as(name: str, unit: Tokens) -> Tokens:
    """A unit with the word pound replaced by what it means: lb for the mass, GBP for the money."""
    return tuple(name if word == "pound" else word for word in unit)
