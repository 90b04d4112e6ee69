"""The picture of `rspo compare --out`: both curves over k, with the 95 % bands of each."""

from pathlib import Path

import pandas as pd

from rspo.core.files import atomic_write
from rspo.evaluation.compare import TITLES, Compared, curves_of
from rspo.figures import style

_LOOKS = {"A": style.Look("#555555", "--", 1.2), "B": style.Look(style.SKY, "-", 1.6)}
_LONGEST_NAME = 34  # characters of a name in the legend; of a longer one, the end is shown


def draw_compared(compared: Compared, path: Path) -> None:
    """Draw both curves into a file, whose suffix decides its format.

    The band of a curve is its interval over problems. Both sides answered the same problems, so
    bands that overlap do not mean that the difference is uncertain; `rspo compare` prints its own
    interval.
    """
    rows = pd.DataFrame(curves_of(compared))
    texts = {
        letter: f"{letter}: {_end(name)}" for letter, name in zip("AB", compared.names, strict=True)
    }
    with style.applied():
        picture = style.new_picture(style.COLUMN_WIDTH, 2.6)
        axes = picture.subplots()
        style.draw(axes, rows, _LOOKS, "k", "estimate", by="side", ends=("low", "high"), alpha=0.15)
        powers = [2**power for power in range(int(rows["k"].max()).bit_length())]
        style.make_log2(axes, powers)
        axes.set_xlabel("k")
        axes.set_ylabel(TITLES[compared.metric])
        style.legend(picture, texts)
        style.note(picture, f"{len(compared.titles)} problems; bands: 95 % over problems")
        with atomic_write(path) as partial:
            picture.savefig(partial, dpi=style.DOTS_PER_INCH)


def _end(name: str) -> str:
    """The end of a long name, which usually tells more than its beginning."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
