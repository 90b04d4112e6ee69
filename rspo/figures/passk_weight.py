"""RSPO's Pass@k weight of a correct response (the paper's figure 4, section 4.2).

    weight(k, w) = k (1 - w)^(k-1),   w = P(a response is correct)

k = 1 is policy gradient, with weight 1 for every w. For k > 1 the weight falls from k to 0 and is 1
at w = 1 - k^(-1/(k-1)), which tends to 1 - 1/e as k tends to 1.
"""

import math
from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import formula_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

CAPTION = (
    "Left: RSPO's Pass@k weight k(1-w)^(k-1) of a correct response against the probability w of a "
    "correct response; right: where the weight is above 1 (green, amplified) and below 1 (red, "
    "damped), with the exact boundary w = 1 - k^(-1/(k-1))."
)
COLUMNS = {
    "panel": "weight: left, a line for each k; boundary: right, where the weight is 1",
    "k": "of Pass@k",
    "w": "probability of a correct response",
    "weight": "k (1 - w)^(k-1)",
}

LINES = (1, 2, 4, 8)
STEPS = 100  # of w between 0 and 1
LARGEST = 16
# The right panel draws the boundary at k = 1, 1 + 1/4, ... 16. Only integers k have a meaning; the
# curve between them guides the eye.
PARTS = 4


def weight(k: float, w: float) -> float:
    """k (1 - w)^(k-1)."""
    return k * (1 - w) ** (k - 1)


def boundary(k: float) -> float:
    """The w at which the weight is 1: 1 - k^(-1/(k-1)), and its limit 1 - 1/e at k = 1."""
    exponent = 1.0 if k == 1 else math.log(k) / (k - 1)
    return -math.expm1(-exponent)


def table() -> "pd.DataFrame":
    """One row for each point."""
    import pandas as pd

    grid = [step / STEPS for step in range(STEPS + 1)]
    rows: list[tuple[str, float, float, float]] = [
        ("weight", k, w, weight(k, w)) for k in LINES for w in grid
    ]
    ks = [part / PARTS for part in range(PARTS, LARGEST * PARTS + 1)]
    rows += [("boundary", k, boundary(k), 1.0) for k in ks]
    # The CSV has 2 on the left and 2.0 on the right.
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def draw(table: "pd.DataFrame") -> "Picture":
    numbers = table.astype({"k": float, "w": float, "weight": float})
    picture = style.new_picture(style.COLUMN_WIDTH, 2.4)
    left, right = picture.subplots(1, 2)
    lines = [
        *formula_lines("policy_gradient", LINES[:1]),
        *formula_lines("rspo_pass_at_k", LINES[1:]),
    ]
    plot = style.plot(numbers, left, x="w", y="weight").limit(x=(0, 1), y=(0, 8.4))
    rows = numbers[numbers["panel"] == "weight"]
    plot = style.add_lines(plot, rows, lines, by="k", every=20, clip_on=False)
    plot.label(x="$w$", y="").plot()
    left.set_ylabel("$k(1-w)^{k-1}$", size=style.FORMULA)
    _draw_regions(right, numbers[numbers["panel"] == "boundary"])
    style.legend(picture, lines)
    style.note(picture, "PG is k = 1: weight 1 for every w (right, hollow: the limit)")
    return picture


def _draw_regions(axes: "Axes", table: "pd.DataFrame") -> None:
    import seaborn.objects as so

    rows = table.assign(bottom=0.0, top=1.0)
    is_integer = rows["k"] % 1 == 0
    dots = {"color": style.INK, "edgewidth": 0.9}
    (
        style.plot(rows, axes, x="k", y="w")
        .add(so.Band(color=style.ABOVE, alpha=1, edgewidth=0), ymin="bottom", ymax="w")
        .add(so.Band(color=style.BELOW, alpha=1, edgewidth=0), ymin="w", ymax="top")
        .add(so.Line(color=style.INK, linewidth=1.2))
        .add(so.Dot(pointsize=2.5, **dots), data=rows[is_integer & (rows["k"] > 1)])
        .add(
            so.Line({"clip_on": False}, marker="o", pointsize=3.5, fillcolor="white", **dots),
            data=rows[rows["k"] == 1],
        )
        .scale(x=style.log2([1, 2, 4, 8, 16]))
        .limit(x=(1, LARGEST), y=(0, 1))
        .label(x="$k$", y="$w$")
        .plot()
    )
    axes.text(1.3, 0.06, "weight > 1", ha="left", size=8)
    axes.text(14, 0.9, "weight < 1", ha="right", size=8)


FIGURE = Figure("fig_passk_weight", CAPTION, COLUMNS, table, draw)
