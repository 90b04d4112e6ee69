"""One theme for all figures, the look of each method, and `draw`, which draws with seaborn.

Figures are drawn at the width at which a two-column paper (acmart sigconf) prints them, so a font
size here is the size on paper; the smallest is 7 pt. Importing this module imports neither
matplotlib nor seaborn; its functions do.
"""

import math
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
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
    from matplotlib.lines import Line2D
    from seaborn.objects import Plot
else:  # imported when a figure is drawn
    Axes = Picture = Any

# As in matplotlib's Line2D: such as "--", or an offset and the lengths of dashes and gaps in turn.
Dashes = str | tuple[int, tuple[float, ...]]
Kind = Literal["line", "points", "forest", "bars"]

# Widths in inches.
COLUMN_WIDTH = 3.33
TEXT_WIDTH = 7.0

DOTS_PER_INCH = 300
_LINES_PER_LEGEND_ROW = 7
SMALL = 7.0  # the smallest font size, in points
# Indices and exponents are set at 0.7 of the size around them; this keeps them at 7 pt.
FORMULA = 10.0

INK = "#222222"
FAINT = "#666666"
REWARD = "#8C8C8C"
# The palette of Okabe and Ito, which is safe for all kinds of colour vision.
ORANGE = "#E69F00"
SKY = "#0072B2"
# Bluish green and light red that differ in lightness too.
GREEN = "#7CC7A0"
LIGHT_RED = "#F6CFC7"

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
class Look:
    """How a method, or any other group of rows, is drawn.

    colour: "#RRGGBB".
    line: dashes of the line.
    width: width of the line, in points (1/72 inch).
    marker: matplotlib's marker of its points; empty for none.
    size: size of the marker, in points.
    filled: whether markers and bars are filled. If not, markers are white and bars are hatched.
    opacity: opacity of the line and the markers, from 0 to 1.
    """

    colour: str
    line: Dashes = "-"
    width: float = 1.2
    marker: str = ""
    size: float = 3.2
    filled: bool = True
    opacity: float = 1.0


@dataclass(frozen=True)
class Family:
    """The looks of one objective with different k.

    colours: name of a colour map, which gives each k its shade; or one "#RRGGBB" for every k.
    line, filled, size: as in `Look`.
    markers: matplotlib's markers, one character each, of which `_marker` chooses one.
    """

    colours: str
    line: Dashes = "-"
    filled: bool = True
    markers: str = "osD^pv<>"
    size: float = 3.2


# Section 5.2 of the paper: PG is black and dashed; reds and blues get darker and thicker with k. In
# grey, filled and hollow markers tell these two families apart, and the shape of a marker tells k.
_FAMILIES = {
    BASE: Family("#8C8C8C", ":", markers="v^<>"),
    "policy_gradient": Family("#000000", "--", markers="x+12", size=3.6),
    "grpo": Family(ORANGE, "-.", markers="*XP8", size=5.0),
    "rspo_pass_at_k": Family("Reds"),
    "rspo_max_at_k": Family("Reds", (0, (14, 0.8))),
    "hitchhiking": Family("Blues", filled=False),
}
# The looks of objectives that the paper does not have, in the order of the registry.
_FURTHER_FAMILIES = (
    Family("Purples", "-.", markers="Phd8"),
    Family("Greens", (0, (6, 1.5)), markers="hd8P"),
    Family("Oranges", (0, (3, 1, 1, 1, 1, 1)), markers="d8Ph"),
    Family("RdPu", (0, (8, 2, 2, 2)), markers="8Phd"),
    Family("YlGn", (0, (2, 1)), markers="<>Ph", filled=False),
)
_RANK_OF_K_4 = 2.0
_RANKS_PER_PLACE = 0.7  # less than from one k to the next, so that no two shades are equal


def applied() -> AbstractContextManager[None]:
    """Give all pictures in this context our theme, whatever the user's matplotlibrc says."""
    import matplotlib.style

    return matplotlib.style.context(_THEME, after_reset=True)


def new_picture(width: float, height: float) -> Picture:
    """An empty picture of a size in inches, without pyplot's global state."""
    from matplotlib.figure import Figure as Picture
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05, wspace=0.03, hspace=0.03)
    return Picture(figsize=(width, height), layout=engine)


def look(method: Method) -> Look:
    """The look of a method, which is the same in every figure."""
    family = _family(method.objective)
    # k = 1, 2, 4 have the ranks 0, 1, 2; objectives without k have the shade of k = 4.
    rank = math.log2(method.k or 1) + _RANKS_PER_PLACE * method.place
    return Look(
        colour=shade(family.colours, rank if method.k else rank + _RANK_OF_K_4),
        line=family.line,
        width=max(0.6, 0.7 + 0.3 * rank),
        marker=family.markers[_marker(method) % len(family.markers)],
        size=family.size,
        filled=family.filled,
    )


def looks(methods: Iterable[Method]) -> dict[Any, Look]:
    """The look of each method by its label."""
    return {method.label: look(method) for method in methods}


def shade(colours: str, rank: float) -> str:
    """A colour of a colour map, darker for a larger rank; a single colour stays as it is.

    k = 2, 4 and 8, with the ranks 1, 2 and 3, have shades at equal distances; above, each rank is
    half as light as the one before.

    Args:
        colours: name of a colour map, or "#RRGGBB".
    """
    if colours.startswith("#"):
        return colours
    import matplotlib
    from matplotlib.colors import to_hex, to_rgb

    place = 0.185 + 0.265 * min(rank, 3)
    lightness = 0.5 ** max(0.0, rank - 3)
    red, green, blue = to_rgb(matplotlib.colormaps[colours](max(0.36, place)))
    return to_hex((lightness * red, lightness * green, lightness * blue))


def _marker(method: Method) -> int:
    """The index of a method's marker among those of its family: by k and by its place."""
    if method.k is None:
        return method.place
    # At place 0, k = 2, 4 and 8 have the first three markers, and at the next place the three after
    # these. A k between two powers of two has another marker than the power below it.
    power = method.k.bit_length() - 2
    is_power = method.k.bit_count() == 1
    return power + 3 * method.place + (0 if is_power else 5)


def _family(objective: str) -> Family:
    """The looks of an objective: those of the paper, or else some of `_FURTHER_FAMILIES`.

    Objectives that the paper does not have take them in turn, in the order of the registry.
    """
    if objective in _FAMILIES:
        return _FAMILIES[objective]
    # Other papers' objectives come last, so that they do not change the style of a project's own.
    names = dict.fromkeys(list(compared()) + list(OBJECTIVES))
    further = [name for name in names if name not in _FAMILIES]
    rounds, index = divmod(further.index(objective), len(_FURTHER_FAMILIES))
    # If there are more objectives than colours, the second objective of a colour has the line and
    # the markers of the next family, and the third those of the family after that.
    neighbour = _FURTHER_FAMILIES[(index + rounds) % len(_FURTHER_FAMILIES)]
    return replace(neighbour, colours=_FURTHER_FAMILIES[index].colours)


# --- drawing with seaborn -------------------------------------------------------------------------


def draw(
    axes: Axes,
    rows: pd.DataFrame,
    looks: Mapping[Any, Look],
    x: str,
    y: str = "",
    *,
    by: str = "method",
    ends: tuple[str, str] | None = None,
    kind: Kind = "line",
    alpha: float = 0.1,
    every: int = 1,
    clip: bool = True,
) -> None:
    """Draw the rows of a table with seaborn: lines, points or bars, and their intervals.

    Call it before you set labels, titles, scales and ticks, which seaborn sets too. seaborn maps
    the colour, the dashes, the marker and the filling of each look. The other properties are set
    afterwards: seaborn visits every combination of the values of all mapped properties, which takes
    minutes for six of them. Each line gets its look's key as its label, which `legend` reads.

    Args:
        rows: a row for each point; a line connects them in this order.
        looks: for each value of column `by`; rows with other values are not drawn.
        x, y: columns. Without y, only intervals are drawn.
        ends: columns with both ends of an interval, of y; in a forest, of x.
        kind: line: lines with bands; points: points with whiskers; forest: points with horizontal
            whiskers; bars: bars, beside each other where several have the same x.
        alpha: opacity of bands.
        every: a line has a marker on every so many of its points; lines start at different points.
        clip: whether lines are cut at the edge of the panel.
    """
    names = _from_the_bottom(rows, looks, by)
    drawn_looks = {name: looks[name] for name in names}
    columns = {"look": by, "x": x, "y": y}
    if ends:
        columns["low"], columns["high"] = ends
    data = pd.DataFrame({new: rows[old].to_numpy() for new, old in columns.items() if old})
    data = data[data["look"].isin(names)].infer_objects()
    if data.empty:
        return
    line_count = len(axes.lines)  # drawn before
    patch_count = len(axes.patches)
    with _pandas_4_is_excluded():
        plot = _plot(data, drawn_looks, kind, alpha, clip)
        plot.theme(_current_theme()).on(axes).plot()
    if kind == "bars":
        # seaborn makes bars that are not filled transparent. A colour ends with its opacity.
        for bar in axes.patches[patch_count:]:
            bar.set_hatch("" if bar.get_facecolor()[-1] else "////")
    elif y:
        _finish(drawn_looks, axes.lines[line_count:], every, joined=kind == "line")


def _finish(looks: Mapping[Any, Look], lines: Iterable["Line2D"], every: int, joined: bool) -> None:
    """Set what seaborn has not mapped. There is one line for each look, in the same order."""
    for place, (name, line) in enumerate(zip(looks, lines, strict=True)):
        look = looks[name]
        # Above grids and bands, which have a smaller zorder, and in the order of `looks`.
        line.set(label=str(name), zorder=3 + place / 100, alpha=look.opacity)
        line.set(linewidth=look.width, markersize=look.size, markeredgewidth=0.9)
        line.set(markerfacecolor=look.colour if look.filled else "white")
        first = 2 * place % every  # the first point with a marker, which differs between lines
        line.set(markevery=(first, every))
        if not joined:
            line.set_linestyle("none")


def _plot(
    data: pd.DataFrame, looks: Mapping[Any, Look], kind: Kind, alpha: float, clip: bool
) -> "Plot":
    """A plot of columns x, y, low, high and look, with what seaborn maps and without a legend."""
    import seaborn.objects as so

    names = list(looks)
    shown = looks.values()
    plot = so.Plot(data, x="x", color="look").label(x="", y="")
    plot = plot.scale(
        color=so.Nominal([look.colour for look in shown], order=names),
        linestyle=so.Nominal([look.line for look in shown], order=names),
        marker=so.Nominal([look.marker for look in shown], order=names),
        fill=so.Nominal([look.filled for look in shown], order=names),
    )
    if "low" in data:
        mark = so.Band(alpha=alpha, edgewidth=0) if kind == "line" else so.Range(linewidth=1.0)
        if kind == "forest":
            plot = plot.add(mark, y="y", xmin="low", xmax="high", orient="y", legend=False)
            # Caps at both ends, because a marker may cover the whole of a short whisker.
            cap = so.Dot(marker="|", pointsize=5.5, stroke=0.8)
            plot = plot.add(cap, x="low", y="y", legend=False)
            plot = plot.add(cap, x="high", y="y", legend=False)
        else:
            plot = plot.add(mark, ymin="low", ymax="high", orient="x", legend=False)
    if kind == "bars":
        bars = so.Bar(alpha=1, edgewidth=0.6)
        return plot.add(bars, so.Dodge(empty="fill"), y="y", fill="look", legend=False)
    if "y" in data:
        line = so.Path({"clip_on": clip})
        return plot.add(line, y="y", marker="look", linestyle="look", orient="x", legend=False)
    return plot


def _from_the_bottom(rows: pd.DataFrame, looks: Mapping[Any, Look], by: str) -> list[Any]:
    """The keys of `looks` that have rows, thick lines first, so that no line hides another."""
    present = set(rows[by])
    return sorted((name for name in looks if name in present), key=lambda name: -looks[name].width)


def _current_theme() -> dict[str, Any]:
    """The current values of all settings that seaborn's theme would change, so that it does not."""
    import matplotlib
    import seaborn.objects as so

    return {key: matplotlib.rcParams[key] for key in so.Plot.config.theme}


@contextmanager
def _pandas_4_is_excluded() -> Iterator[None]:
    """Silence a warning: seaborn 0.13.2 passes an argument that pandas 4 removes.

    pyproject.toml excludes pandas 4.
    """
    from pandas.errors import Pandas4Warning

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The copy keyword is deprecated", Pandas4Warning)
        yield


# --- around the panels ----------------------------------------------------------------------------


def make_log2(axes: Axes, values: Iterable[int]) -> None:
    """Give the x axis equal steps for doublings, and ticks at the values themselves."""
    ticks = sorted(set(values))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()


def make_log10(axes: Axes, axis: Literal["x", "y"] = "y", digits: Sequence[int] = (1,)) -> None:
    """Make an axis logarithmic, with few ticks.

    Ticks are plain numbers, because superscripts would be too small.

    Args:
        digits: the first digits of the ticks.
    """
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    axes.set(**{f"{axis}scale": "log"})
    ticks = axes.xaxis if axis == "x" else axes.yaxis
    ticks.set_major_locator(LogLocator(subs=digits, numticks=6))
    ticks.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.minorticks_off()


def legend(
    picture: Picture, texts: Mapping[str, str], families: Sequence[Sequence[str]] = ()
) -> None:
    """Add one legend above the whole picture, of the lines that `draw` has drawn.

    Args:
        texts: what the legend says, by the label of the line.
        families: groups of labels, each of which has a row of its own. All other labels come before
            them, column by column.
    """
    from matplotlib.lines import Line2D

    drawn = {str(line.get_label()): line for axes in picture.axes for line in axes.lines}
    if drawn.keys().isdisjoint(texts):
        return
    # The labels with a row of their family, and the single ones; the number of rows.
    rows = [[label for label in family if label in drawn] for family in families]
    single = [label for label in texts if label in drawn and label not in chain(*rows)]
    count = max(len(rows), math.ceil((len(single) + len(rows)) / _LINES_PER_LEGEND_ROW))
    if rows:
        # The families take columns beside the single labels, for which these are left.
        columns = max(1, _LINES_PER_LEGEND_ROW - max(map(len, rows)))
        count = max(count, math.ceil(len(single) / columns))
    # matplotlib fills a legend column by column, so empty entries complete the columns.
    entries = single + [""] * (-len(single) % count)
    for column in zip_longest(*rows, fillvalue=""):
        entries += column
        entries += [""] * (count - len(column))
    blank = Line2D([], [], linestyle="none")
    narrow = picture.get_figwidth() < TEXT_WIDTH
    picture.legend(
        [drawn.get(entry, blank) for entry in entries],
        [texts.get(entry, " ") for entry in entries],
        loc="outside upper center",
        ncols=math.ceil(len(entries) / count),
        handlelength=1.8 if narrow else 3.0,
        columnspacing=0.7 if narrow else 1.4,
        handletextpad=0.4,
    )


def legend_of(picture: Picture, methods: Iterable[Method]) -> None:
    """Add the legend of some methods, with the same k below each other.

    An objective with several methods has a row of its own.
    """
    labels = defaultdict(list)
    for method in methods:
        labels[method.objective].append(method.label)
    texts = {label: label for label in chain(*labels.values())}
    legend(picture, texts, [family for family in labels.values() if len(family) > 1])


def note(picture: Picture, *parts: str) -> None:
    """Write small print at the bottom.

    Parts share a line where they fit, and long parts are wrapped.
    """
    # 7 pt letters of this font are about 3.6 pt wide on average; 3.8 leaves some room.
    letters = int(picture.get_figwidth() * 72 / 3.8)
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f"; {part}"
        else:
            # Lines get about the same length, so that no single word is alone on the last line.
            count = math.ceil(len(part) / letters)
            lines += textwrap.wrap(part, min(letters, len(part) // count + 8))
    picture.supxlabel("\n".join(lines), fontsize=SMALL, color=FAINT)
