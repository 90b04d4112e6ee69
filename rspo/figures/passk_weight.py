"""RSPO's Pass@k weight of a correct response (the paper's figure 4, section 4.2).

    weight(k, w) = k (1 - w)^(k-1),   w = P(a response is correct)

k = 1 is policy gradient, weight 1 for every w. For k > 1 the weight falls from k to 0 and is 1 at
w = 1 - k^(-1/(k-1)), which tends to 1 - 1/e as k tends to 1.
"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.figures import style
from rspo.figures.drawing import Row

COLUMNS = {
    "panel": "weight: left, a line for each k; boundary: right, where the weight is 1",
    "k": "of Pass@k",
    "w": "probability of a correct response",
    "weight": "k (1 - w)^(k-1)",
}

LINES = (1, 2, 4, 8)
STEPS = 100  # of w between 0 and 1
LARGEST = 16
# The right panel's boundary at 1, 1 + 1/4, ... 16: whole k have meaning, the curve between is
# there for the eye.
PARTS = 4


def weight(k: float, w: float) -> float:
    """k (1 - w)^(k-1)."""
    return k * (1 - w) ** (k - 1)


def boundary(k: float) -> float:
    """The w at which the weight is 1: 1 - k^(-1/(k-1)), and its limit 1 - 1/e at k = 1."""
    exponent = 1.0 if k == 1 else math.log(k) / (k - 1)
    return -math.expm1(-exponent)


def numbers() -> list[Row]:
    rows: list[Row] = [
        {"panel": "weight", "k": k, "w": step / STEPS, "weight": weight(k, step / STEPS)}
        for k in LINES
        for step in range(STEPS + 1)
    ]
    for part in range(PARTS, LARGEST * PARTS + 1):
        k = part / PARTS
        rows.append({"panel": "boundary", "k": k, "w": boundary(k), "weight": 1.0})
    return rows


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.COLUMN_WIDTH, 2.4)
    left, right = result.subplots(1, 2)
    lines = style.formula_lines(LINES)
    for line in lines:
        points = [row for row in rows if row["panel"] == "weight" and row["k"] == line.k]
        left.plot(
            [row["w"] for row in points],
            [row["weight"] for row in points],
            **style.line(line),
            markevery=len(points) // 5,
            clip_on=False,  # markers at the edge are whole
            gid=f"weight/{line.k}",
        )
    left.set_xlabel("$w$")
    left.set_ylabel("$k(1-w)^{k-1}$", size=style.FORMULA)
    left.set_xlim(0, 1)
    left.set_ylim(0)
    _draw_region(right, [row for row in rows if row["panel"] == "boundary"])
    style.legend(result, lines)
    style.note(result, "right, k = 1: weight 1 for every w (hollow: boundary's limit)")
    return result


def _draw_region(axes: Axes, rows: Sequence[Row]) -> None:
    k, w = [row["k"] for row in rows], [row["w"] for row in rows]
    axes.fill_between(k, 0, w, color=style.ABOVE, linewidth=0, gid="above")
    axes.fill_between(k, w, 1, color=style.BELOW, linewidth=0, gid="below")
    axes.plot(k, w, color=style.INK, linewidth=1.2, gid="boundary")
    whole = [row for row in rows if float(row["k"]).is_integer() and row["k"] != 1]
    axes.plot(
        [row["k"] for row in whole],
        [row["w"] for row in whole],
        linestyle="none",
        marker="o",
        markersize=2.5,
        color=style.INK,
        clip_on=False,
        gid="boundary/whole",
    )
    axes.plot(
        k[0],
        w[0],
        marker="o",
        markersize=3.5,
        markerfacecolor="white",
        color=style.INK,
        clip_on=False,
        gid="boundary/limit",
    )
    axes.text(1.3, 0.06, "weight > 1", ha="left", size=8)
    axes.text(14, 0.9, "weight < 1", ha="right", size=8)
    style.log2_axis(axes, [1, 2, 4, 8, 16])
    axes.set(xlim=(1, LARGEST), ylim=(0, 1), xlabel="$k$", ylabel="$w$")
    axes.grid(visible=False)
