"""One look for all figures: sizes, fonts, and the line that stands for each method.

Pictures are made at the width at which a paper of two columns (acmart sigconf) prints them, so a
font size here is the size on paper; the smallest is 7 pt.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from rspo.config.experiment import BASE
from rspo.figures.methods import Method
from rspo.objectives import OBJECTIVES

# Inches.
COLUMN_WIDTH = 3.33
TEXT_WIDTH = 7.0

DOTS_PER_INCH = 300
SMALL = 7.0
# Indices and exponents are set at 0.7 of the size around them; this keeps those at 7 pt.
FORMULA = 10.0

INK = "#222222"
FAINT = "#666666"
# Okabe and Ito's palette, told apart by every kind of colour vision.
ORANGE = "#E69F00"
SKY = "#0072B2"
# Bluish green and light red that differ in lightness too.
ABOVE = "#7CC7A0"
BELOW = "#F6CFC7"

_LOOK: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine has it
    "mathtext.fontset": "dejavusans",
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.1,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # TrueType, embedded
}


@dataclass(frozen=True)
class Family:
    """How the lines of one objective look: a colour map, or one colour for all of them."""

    colours: str
    line: str | tuple[int, tuple[float, ...]] = "-"
    filled: bool = True
    markers: str = "osD^pv<>"
    marker_size: float = 3.6


# The paper's section 5.2 asks for a black dashed PG, and reds and blues that get darker and thicker
# with k. Filled against hollow markers tell the two families apart in grey; the shape tells k.
_FAMILIES = {
    BASE: Family("#8C8C8C", ":", markers="v^<>"),
    "policy_gradient": Family("#000000", "--", markers="x+12"),
    "grpo": Family(ORANGE, "-.", markers="*XP8", marker_size=6.0),
    "rspo_pass_at_k": Family("Reds"),
    "rspo_max_at_k": Family("Reds", markers="Phv8d<>*"),
    "hitchhiking": Family("Blues", filled=False),
}
# Of objectives that nobody has chosen a look for, in the order of the registry.
_OTHERS = (
    Family("Purples", "-.", markers="Phd8"),
    Family("Greens", (0, (6, 1.5)), markers="hd8P"),
    Family("Oranges", (0, (3, 1, 1, 1, 1, 1)), markers="d8Ph"),
)


@contextmanager
def applied() -> Iterator[None]:
    """Within it, pictures have this look, whatever the user's own matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


def new_picture(width: float, height: float) -> Picture:
    """An empty picture in inches, outside pyplot: no window, no global state."""
    engine = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05, wspace=0.03, hspace=0.03)
    return Picture(figsize=(width, height), layout=engine)


def line(method: Method) -> dict[str, Any]:
    """Colour, width, dashes and marker of a method's line, for `Axes.plot`."""
    family = _family(method.objective)
    colour = shade(family.colours, method.position, method.family)
    return {
        "color": colour,
        "linestyle": family.line,
        "linewidth": 0.9 + 0.35 * method.position,
        "marker": family.markers[method.position % len(family.markers)],
        "markersize": family.marker_size,
        "markerfacecolor": colour if family.filled else "white",
        "markeredgewidth": 0.9,
    }


def band(
    axes: Axes,
    method: Method,
    x: Sequence[Any],
    low: Sequence[Any],
    high: Sequence[Any],
    alpha: float = 0.15,
) -> None:
    """What lies between two lines of a method, numbers of its rows, in its colour."""
    colour = line(method)["color"]
    axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0, gid=method.label)


def _family(objective: str) -> Family:
    if objective in _FAMILIES:
        return _FAMILIES[objective]
    others = [name for name in OBJECTIVES if name not in _FAMILIES]
    return _OTHERS[others.index(objective) % len(_OTHERS)]


def formula_lines(ks: Sequence[int]) -> list[Method]:
    """Lines for RSPO's formulas at several k, looking as in the figures of results."""
    larger = [k for k in ks if k > 1]
    lines = [Method("$k=1$ (PG)", "policy_gradient", 1, None, ())] if 1 in ks else []
    for position, k in enumerate(larger):
        lines.append(Method(f"$k={k}$", "rspo_pass_at_k", k, None, (), position, len(larger)))
    return lines


def shade(colours: str, position: int, family: int) -> str:
    """Colour number `position` of `family`, darker with each; a plain colour stays as it is."""
    if colours.startswith("#"):
        return colours
    lightness = 0.75 if family == 1 else 0.45 + 0.53 * position / (family - 1)
    return to_hex(matplotlib.colormaps[colours](lightness))


def log2_axis(axes: Axes, values: Sequence[int]) -> None:
    """An x axis with equal steps for doublings, ticks at the values themselves."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()


def log10_axis(axes: Axes, which: str) -> None:
    """A logarithmic "x" or "y" axis, labelled without exponents, which would be set too small."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    )
    axis.set_minor_formatter(NullFormatter())


def legend(picture: Picture, methods: Sequence[Method]) -> None:
    """One legend for the whole picture, above it: a row for each family of several lines.

    The lines that have no family stand in front, so that the same k of two families are one above
    the other.
    """
    rows = _family_rows(methods)
    narrow = picture.get_figwidth() < TEXT_WIDTH
    picture.legend(
        # matplotlib fills a legend column by column.
        handles=[_handle(entry) for column in zip(*rows, strict=True) for entry in column],
        loc="outside upper center",
        ncols=len(rows[0]),
        handlelength=1.8 if narrow else 3.0,
        columnspacing=0.7 if narrow else 1.4,
        handletextpad=0.4,
    )


def _family_rows(methods: Sequence[Method]) -> list[list[Method | None]]:
    """Rows of a legend, all of the same length; None leaves a place empty."""
    families = dict.fromkeys(m.objective for m in methods if m.family > 1)
    rows = [[m for m in methods if m.objective == objective] for objective in families] or [[]]
    singles = [m for m in methods if m.family == 1]
    front = [singles[i :: len(rows)] for i in range(len(rows))]
    filled = [[*_pad(start, len(front[0])), *row] for start, row in zip(front, rows, strict=True)]
    width = max(len(row) for row in filled)
    return [_pad(row, width) for row in filled]


def _pad(items: Sequence[Method | None], length: int) -> list[Method | None]:
    return [*items, *[None] * (length - len(items))]


def _handle(method: Method | None) -> Line2D:
    if method is None:
        return Line2D([], [], linestyle="none", label=" ")
    return Line2D([], [], label=method.label, **line(method))


def note(picture: Picture, *parts: str) -> None:
    """Small print at the bottom: on one line if that fits, else each part on lines of its own."""
    # 7 pt letters of this font are about 3.6 pt wide on average.
    letters = int(picture.get_figwidth() * 72 / 3.8)
    text = "; ".join(parts)
    if len(text) > letters:
        text = "\n".join(_wrap(part, letters) for part in parts)
    picture.supxlabel(text, fontsize=SMALL, color=FAINT)


def _wrap(text: str, letters: int) -> str:
    """As few lines as needed, of about the same length rather than one word alone on the last."""
    count = len(textwrap.wrap(text, letters))
    while len(textwrap.wrap(text, letters - 1)) == count and letters > len(text) // count:
        letters -= 1
    return textwrap.fill(text, letters)
