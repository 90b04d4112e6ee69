"""The picture of `rspo compare --out`: both curves over k, with the 95 % bands of each."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rspo.core.files import atomic_write
from rspo.evaluation.compare import TITLES, Compared, curves_of
from rspo.figures import style

_LOOKS = {"A": style.Look("#555555", "--", 1.2), "B": style.Look(style.SKY, "-", 1.6)}
_LONGEST_NAME = 34  # characters of a name in the legend
# What stands between the pieces of a path: slashes, and the beginning of each suffix.
_BETWEEN_PIECES = re.compile(r"(?<=/)|(?=\.[a-z])")
_WORD = re.compile(r"[^/_. -]*")


def draw_compared(compared: Compared, path: Path) -> None:
    """Draw both curves into a file, whose suffix decides its format.

    The band of a curve is its interval over problems. Both sides answered the same problems, so
    bands that overlap do not mean that the difference is uncertain; `rspo compare` prints its own
    interval.
    """
    rows = pd.DataFrame(curves_of(compared))
    texts = {}
    for letter, name in zip("AB", names_in_legend(*compared.names), strict=True):
        # Matplotlib would read what stands between two dollar signs as a formula.
        texts[letter] = f"{letter}: {name}".replace("$", r"\$")
    with style.applied():
        picture = style.new_picture(style.COLUMN_WIDTH, 2.6)
        axes = picture.subplots()
        style.draw(axes, rows, _LOOKS, "k", "estimate", by="side", ends=("low", "high"), alpha=0.15)
        powers = [2**power for power in range(int(rows["k"].max()).bit_length())]
        style.make_log2(axes, powers)
        axes.set_xlabel("k")
        axes.set_ylabel(TITLES[compared.metric])
        style.legend(picture, texts, families=[["A"], ["B"]])  # below each other
        style.note(picture, f"{len(compared.titles)} problems; bands: 95 % over problems")
        with atomic_write(path) as partial:
            picture.savefig(partial, dpi=style.DOTS_PER_INCH)


def names_in_legend(first: str, second: str) -> tuple[str, str]:
    """What tells two paths apart: without the folders and suffixes that both have.

    A long rest is cut, and then begins with the word that differs.
    """
    pieces = [_BETWEEN_PIECES.split(name) for name in (first, second)]
    before = _number_alike(*pieces)
    after = _number_alike(*(list(reversed(of_name[before:])) for of_name in pieces))
    rests = ["".join(of_name[before : len(of_name) - after]) for of_name in pieces]
    if not all(rests):  # equal names, or one is the other with a folder or suffix more
        rests = [first, second]
    differs = _number_alike(*rests)
    return _cut(rests[0], differs), _cut(rests[1], differs)


def _number_alike(first: Sequence[str], second: Sequence[str]) -> int:
    """The number of pieces, or of letters, at the beginning that are equal."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _cut(name: str, differs: int) -> str:
    """A name in at most `_LONGEST_NAME` letters, among which is the place where it differs."""
    name = name.rstrip("/")
    if len(name) <= _LONGEST_NAME:
        return name
    shown = _LONGEST_NAME - 6  # the letters between two ellipses
    words = [word.start() for word in _WORD.finditer(name[:differs])]
    # A long word may differ at its end only.
    start = max(words[-1] if words else 0, differs - shown // 2)
    start = max(min(start, len(name) - shown), 0)
    end = start + shown
    before = "..." if start else ""
    after = "..." if end < len(name) else ""
    return before + name[start:end] + after
