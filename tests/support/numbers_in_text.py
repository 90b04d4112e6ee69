"""Makes texts whose last number is not their answer, by changing the words and signs beside it."""

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
MARK = "¦"
# What stands before or after a number, with a mark between two of them.
BEFORE = (
    r"negative¦minus¦plus¦not¦not equal to¦at least¦"
    r"at most¦more than¦about¦less than¦5 or¦5 and¦"
    r"5,¦5;¦5 to¦5 times¦5 over¦between 5 and¦"
    r"step¦divided by¦the square root of¦half of¦5% of¦"
    r"5 plus¦sqrt¦log¦sin¦x¦n¦\sqrt¦\pm¦"
    r"\neq¦\ne¦\leq¦\geq¦\approx¦\times¦"
    r"\cdot¦\frac¦5^¦5_¦5:¦5/¦5 -¦"
    r"5 –¦(5, ¦(5; ¦[5, ¦{¦(¦|¦x^¦"
    r"a_¦!=¦<=¦>=¦==¦~=¦5 mod¦up to¦"
    r"close to¦no more than¦isn't¦is not¦hundred¦"
    r"twenty"
).split(MARK)
AFTER = (
    r"!¦²¦³¦½¦π¦√2¦ π¦"
    r"x¦ x¦i¦ i¦e¦th¦st¦^2¦^{2}¦"
    r"_2¦_n¦ or more¦ or less¦ or so¦ times¦"
    r" million¦ thousand¦ thousandths¦ hundredths¦"
    r" tenths¦ thirds¦ halves¦ sevenths¦ dozen¦"
    r" hundred¦ squared¦ cubed¦ pi¦pi¦ factorial¦"
    r" plus¦ minus x¦ + x¦ - x¦ * x¦ / x¦/x¦"
    r" over x¦ to x¦?¦ ?¦...¦..¦…¦"
    r"\pi¦ \pi¦\sqrt{2}¦ \times x¦ \pm x¦"
    r" \cdot x¦}¦)¦]¦|¦, or x¦, but not¦"
    "; or x¦ is wrong¦ is not it¦ and x¦\nor x¦"
    r". Or x¦(x)¦[x]¦ mod x¦ \pmod x¦ if x¦"
    r" unless x¦ more than x¦ less than x¦ out of x¦"
    r" choose x"
).split(MARK)


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
