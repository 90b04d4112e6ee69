"""One theme for all figures, and the line style of each method.

Figures are drawn at the width at which a two-column paper (acmart sigconf) prints them, so a font
size here is the size on paper; the smallest is 7 pt. Importing this module does not import
matplotlib; its functions do.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.config.experiment import BASE
from rspo.objectives import OBJECTIVES, compared

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Picture
else:  # imported when a figure is drawn
    Axes = Picture = Any

# Inches.
COLUMN_WIDTH = 3.33
TEXT_WIDTH = 7.0

DOTS_PER_INCH = 300
SMALL = 7.0
# Indices and exponents are set at 0.7 of the size around them; this keeps them at 7 pt.
FORMULA = 10.0

INK = "#222222"
FAINT = "#666666"
# The palette of Okabe and Ito, which is safe for all kinds of colour vision.
ORANGE = "#E69F00"
SKY = "#0072B2"
# Bluish green and light red that differ in lightness too.
ABOVE = "#7CC7A0"
BELOW = "#F6CFC7"

_THEME: Any = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib
    "mathtext.fontset": "dejavusans",
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 7.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    **dict.fromkeys(("xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    **dict.fromkeys(("xtick.minor.size", "ytick.minor.size"), 1.5),
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


# Section 5.2 of the paper: PG is black and dashed; reds and blues get darker and thicker with k. In
# grey, filled and hollow markers tell these two families apart, and the shape of a marker tells k.
_FAMILIES = {
    BASE: Family("#8C8C8C", ":", markers="v^<>"),
    "policy_gradient": Family("#000000", "--", markers="x+12"),
    "grpo": Family(ORANGE, "-.", markers="*XP8", marker_size=6.0),
    "rspo_pass_at_k": Family("Reds"),
    "rspo_max_at_k": Family("Reds", markers="Phd8v<>*"),
    "hitchhiking": Family("Blues", filled=False),
}
# For the other objectives, in the order of the registry.
_OTHERS = (
    Family("Purples", "-.", markers="Phd8"),
    Family("Greens", (0, (6, 1.5)), markers="hd8P"),
    Family("Oranges", (0, (3, 1, 1, 1, 1, 1)), markers="d8Ph"),
    Family("RdPu", (0, (8, 2, 2, 2)), markers="8Phd"),
    Family("YlGn", (0, (2, 1)), markers="<>Ph", filled=False),
)


def applied() -> AbstractContextManager[None]:
    """Within this context all pictures have our theme, whatever the user's matplotlibrc says."""
    import matplotlib.style

    return matplotlib.style.context(_THEME, after_reset=True)


def new_picture(width: float, height: float) -> Picture:
    """An empty picture of a size in inches, without pyplot's global state."""
    from matplotlib.figure import Figure as Picture
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05, wspace=0.03, hspace=0.03)
    return Picture(figsize=(width, height), layout=engine)


def line(method: Method) -> dict[str, Any]:
    """Colour, width, dashes and marker of a method's line: properties of `Line2D`."""
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


def draw_lines(
    axes: Axes,
    table: pd.DataFrame,
    methods: Sequence[Method],
    x: str,
    y: str,
    by: str = "method",
    every: int = 1,
    **options: Any,
) -> None:
    """Draw a line for each method, thin lines above thick ones, so that none is hidden.

    Args:
        x, y: columns.
        by: the column that tells methods apart: by their objective or k, or else by their label.
        every: points between two markers; methods put theirs on different points.
        options: of each `matplotlib.lines.Line2D`.
    """
    for place, method in enumerate(_from_the_bottom(methods), start=1):
        rows, markers = rows_of(table, method, by), (2 * place % every, every)
        axes.plot(rows[x], rows[y], markevery=markers, zorder=3, **line(method) | options)


def draw_intervals(
    axes: Axes,
    table: pd.DataFrame,
    methods: Sequence[Method],
    x: str,
    ends: tuple[str, str],
    alpha: float | None = 0.12,
) -> None:
    """Draw an interval of each method in its colour, between the two columns `ends`.

    Args:
        alpha: opacity of the bands; None draws a whisker at each point instead.
    """
    for method in _from_the_bottom(methods):
        colour, rows = line(method)["color"], rows_of(table, method)
        low, high = rows[ends[0]], rows[ends[1]]
        if alpha is None:
            axes.vlines(rows[x], low, high, color=colour, linewidth=0.8)
        else:
            axes.fill_between(rows[x].astype(float), low, high, color=colour, alpha=alpha, lw=0)


def rows_of(table: pd.DataFrame, method: Method, by: str = "method") -> pd.DataFrame:
    """The rows of a method; see `draw_lines`."""
    return table[table[by] == getattr(method, by, method.label)]


def _from_the_bottom(methods: Sequence[Method]) -> list[Method]:
    """Thick lines first; the single lines of PG, GRPO and the base policies last, on top."""
    return sorted(methods, key=lambda method: (method.family == 1, -method.position))


def _family(objective: str) -> Family:
    if objective in _FAMILIES:
        return _FAMILIES[objective]
    # Other papers' objectives come last, so that they do not change the style of a project's own.
    names = dict.fromkeys([*compared(), *OBJECTIVES])
    others = [name for name in names if name not in _FAMILIES]
    rounds, index = divmod(others.index(objective), len(_OTHERS))
    # The second objective of a colour has the line and the markers of its neighbour, and so on.
    neighbour = _OTHERS[(index + rounds) % len(_OTHERS)]
    return replace(neighbour, colours=_OTHERS[index].colours)


def shade(colours: str, position: int, family: int) -> str:
    """Colour `position` of `family` in a colour map, from light to dark; or the one "#RRGGBB"."""
    if colours.startswith("#"):
        return colours
    import matplotlib
    from matplotlib.colors import to_hex

    lightness = 0.75 if family == 1 else 0.45 + 0.53 * position / (family - 1)
    return to_hex(matplotlib.colormaps[colours](lightness))


def make_log2(axes: Axes, values: Iterable[int]) -> None:
    """Give the x axis equal steps for doublings, and ticks at the values themselves."""
    ticks = sorted({*values})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()


def make_log10(axes: Axes, axis: Literal["x", "y"] = "y", digits: Sequence[int] = (1,)) -> None:
    """Make an axis logarithmic, with few ticks.

    Numbers are written without superscripts, which would be too small.

    Args:
        digits: the first digits of the ticks.
    """
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    axes.set(**{f"{axis}scale": "log"})
    of_axis = axes.xaxis if axis == "x" else axes.yaxis
    of_axis.set_major_locator(LogLocator(subs=digits, numticks=6))
    of_axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.minorticks_off()


def legend(picture: Picture, methods: Sequence[Method]) -> None:
    """One legend above the whole picture, with one row for each family of several lines.

    Single lines come first, so that lines with the same k are below each other.
    """
    from matplotlib.lines import Line2D

    objectives = dict.fromkeys(method.objective for method in methods if method.family > 1)
    families = [[m for m in methods if m.objective == objective] for objective in objectives]
    rows = max(1, len(families))
    single = [method for method in methods if method.family == 1]
    # matplotlib fills a legend column by column.
    entries = [*single, *[None] * (-len(single) % rows), *chain(*zip_longest(*families))]
    blank: dict[str, Any] = {"label": " ", "linestyle": "none"}
    looks = [blank if m is None else {"label": m.label, **line(m)} for m in entries]
    narrow = picture.get_figwidth() < TEXT_WIDTH
    picture.legend(
        handles=[Line2D([], [], **look) for look in looks],
        loc="outside upper center",
        ncols=len(entries) // rows,
        handlelength=1.8 if narrow else 3.0,
        columnspacing=0.7 if narrow else 1.4,
        handletextpad=0.4,
    )


def note(picture: Picture, *parts: str) -> None:
    """Small print at the bottom: parts share a line where they fit, and long parts are wrapped."""
    # 7 pt letters of this font are about 3.6 pt wide on average.
    letters = int(picture.get_figwidth() * 72 / 3.8)
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f"; {part}"
        else:
            # Lines of about the same length, rather than one word on the last line.
            count = math.ceil(len(part) / letters)
            lines += textwrap.wrap(part, min(letters, len(part) // count + 8))
    picture.supxlabel("\n".join(lines), fontsize=SMALL, color=FAINT)
