"""Texts whose last number is not what they state, made by changing what stands beside it."""

import random
import sys
import unicodedata
from collections.abc import Iterator

# Beside these signs, a number still is the answer: they open or close formulas, end sentences or
# name a currency. A space is none of them.
HARMLESS_BEFORE = set("=:$£€¥₹：")
HARMLESS_AFTER = set("$.。°,;%")
# Categories of Unicode: signs of mathematics, modifiers, other signs, punctuation, dashes,
# brackets, numbers that are no digits.
_CATEGORIES = ("Sm", "Sk", "So", "Sc", "Po", "Pd", "Ps", "Pe", "No", "Nl")
BEFORE = (
    *(
        "negative",
        "minus",
        "plus",
        "not",
        "not equal to",
        "at least",
        "at most",
        "more than",
        "about",
    ),
    *(
        "less than",
        "5 or",
        "5 and",
        "5,",
        "5;",
        "5 to",
        "5 times",
        "5 over",
        "between 5 and",
        "step",
    ),
    *(
        "divided by",
        "the square root of",
        "half of",
        "5% of",
        "5 plus",
        "sqrt",
        "log",
        "sin",
        "x",
        "n",
    ),
    *(
        r"\sqrt",
        r"\pm",
        r"\neq",
        r"\ne",
        r"\leq",
        r"\geq",
        r"\approx",
        r"\times",
        r"\cdot",
        r"\frac",
    ),
    *(
        "5^",
        "5_",
        "5:",
        "5/",
        "5 -",
        "5 –",
        "(5, ",
        "(5; ",
        "[5, ",
        "{",
        "(",
        "|",
        "x^",
        "a_",
        "!=",
        "<=",
    ),
    *(
        ">=",
        "==",
        "~=",
        "5 mod",
        "up to",
        "close to",
        "no more than",
        "isn't",
        "is not",
        "hundred",
        "twenty",
    ),
)
AFTER = (
    *(
        "!",
        "²",
        "³",
        "½",
        "π",
        "√2",
        " π",
        "x",
        " x",
        "i",
        " i",
        "e",
        "th",
        "st",
        "^2",
        "^{2}",
        "_2",
        "_n",
    ),
    *(
        " or more",
        " or less",
        " or so",
        " times",
        " million",
        " thousand",
        " thousandths",
        " hundredths",
    ),
    *(
        " tenths",
        " thirds",
        " halves",
        " sevenths",
        " dozen",
        " hundred",
        " squared",
        " cubed",
        " pi",
        "pi",
    ),
    *(
        " factorial",
        " plus",
        " minus x",
        " + x",
        " - x",
        " * x",
        " / x",
        "/x",
        " over x",
        " to x",
        "?",
        " ?",
    ),
    *(
        "...",
        "..",
        "…",
        r"\pi",
        r" \pi",
        r"\sqrt{2}",
        r" \times x",
        r" \pm x",
        r" \cdot x",
        "}",
        ")",
        "]",
    ),
    *(
        "|",
        ", or x",
        ", but not",
        "; or x",
        " is wrong",
        " is not it",
        " and x",
        "\nor x",
        ". Or x",
        "(x)",
        "[x]",
    ),
    *(
        " mod x",
        r" \pmod x",
        " if x",
        " unless x",
        " more than x",
        " less than x",
        " out of x",
        " choose x",
    ),
)


def texts(seed: int, rounds: int) -> Iterator[tuple[str, str]]:
    """Pairs of a number and a text that does not state it."""
    draw = random.Random(seed)
    characters = map(chr, range(sys.maxunicode))
    signs = [sign for sign in characters if unicodedata.category(sign) in _CATEGORIES]
    for _ in range(rounds):
        number = str(draw.randint(2, 99))
        stem = draw.choice(("so x is ", "We get ", "so ", "Therefore it is ", ""))
        for space in ("", " "):
            for before in BEFORE:
                yield number, f"{stem}{before}{space}{number}"
            for after in AFTER:
                yield number, f"{stem}{number}{after}"
            for sign in draw.sample(signs, 400):
                if sign not in HARMLESS_BEFORE:
                    yield number, f"{stem}{sign}{space}{number}"
                if sign not in HARMLESS_AFTER:
                    yield number, f"{stem}{number}{space}{sign} y"
                    yield number, f"{stem}{number}{space}{sign}"
