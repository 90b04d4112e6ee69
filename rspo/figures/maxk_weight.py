"""RSPO's Max@k weight when rewards are standard normal (the paper's figure 5, section 4.3).

    weight(k, R) = k sum_{y' < y} (R(y) - R(y')) pi(y') (k-1) P_<=(y')^(k-2)
                 = k int_{-inf}^{R} (R - r) (k-1) Phi(r)^(k-2) phi(r) dr
                 = k int_{-inf}^{R} Phi(r)^(k-1) dr                 (by parts)

For k = 2 this is twice the area under the cumulative distribution Phi up to R, which is
R Phi(R) + phi(R).
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import formula_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

CAPTION = (
    "Standard normal rewards; left: for k = 2 the area under the cumulative distribution up to a "
    "reward R is that response's weight divided by k; right: the weight, k times the integral of "
    "the distribution's (k-1)-th power up to R, against R."
)
COLUMNS = {
    "panel": "cdf, filled (the part up to R) and area (of all that is filled): left; weight: right",
    "k": "of Max@k",
    "reward": "x: in standard deviations; of the area: R",
    "value": "y: Phi, the area, or the gradient weight",
}

LINES = (2, 4, 8)
R = 1.0  # right end of the filled area
LEFT, RIGHT = -3.0, 3.0
STEP = 0.05
# Phi(-10) is 1e-23, too small to change a float64 sum.
START = -10.0


def normal_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi, the cumulative distribution of a standard normal reward."""
    return 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


def gradient_weight(k: int, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """k int_{-inf}^{R} Phi(r)^(k-1) dr at each R of an ascending grid, to about 1e-14.

    Gauss-Legendre with 16 nodes between neighbours of the grid, extended down to START.
    """
    down = np.arange(START, rewards[0], STEP)
    edges = np.concatenate([down, rewards])
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (1 + nodes)
    pieces = (half * node_weights * normal_cdf(points) ** (k - 1)).sum(axis=1)
    return k * np.concatenate([[0.0], np.cumsum(pieces)])[len(down) :]


def table() -> "pd.DataFrame":
    """One row for each point, and one for the area."""
    import pandas as pd

    grid = np.linspace(LEFT, RIGHT, round((RIGHT - LEFT) / STEP) + 1)
    up_to_r = grid[grid <= R + STEP / 2]
    area = gradient_weight(2, np.array([R])) / 2
    parts = [
        ("cdf", 2, grid, normal_cdf(grid)),
        ("filled", 2, up_to_r, normal_cdf(up_to_r)),
        ("area", 2, np.array([R]), area),
        *(("weight", k, grid, gradient_weight(k, grid)) for k in LINES),
    ]
    # Rounding removes the rounding errors of the grid, such as 0.30000000000000027.
    return pd.concat(
        [
            pd.DataFrame({"panel": panel, "k": k, "reward": reward.round(10), "value": value})
            for panel, k, reward, value in parts
        ],
        ignore_index=True,
    )


def draw(table: "pd.DataFrame") -> "Picture":
    picture = style.new_picture(style.COLUMN_WIDTH, 2.2)
    left, right = picture.subplots(1, 2)
    _draw_cdf(left, dict(iter(table.groupby("panel"))))
    lines = formula_lines("rspo_max_at_k", LINES)
    plot = style.plot(table, right, x="reward", y="value").limit(x=(LEFT, RIGHT), y=(0, 14))
    rows = table[table["panel"] == "weight"]
    style.add_lines(plot, rows, lines, by="k", every=20).label(
        x="reward $R$", y="gradient weight", title="several $k$"
    ).plot()
    style.legend(picture, lines)
    style.note(picture, "standard normal rewards; \u03a6: their cumulative distribution")
    return picture


def _draw_cdf(axes: "Axes", panels: "dict[str, pd.DataFrame]") -> None:
    import seaborn.objects as so

    colour = style.shade("Reds", 0, len(LINES))
    end, area = panels["area"][["reward", "value"]].iloc[0]
    (
        style.plot(panels["cdf"], axes, x="reward", y="value")
        .add(so.Area(color=colour, alpha=0.35, edgewidth=0), data=panels["filled"])
        .add(so.Line(color=style.INK, linewidth=1.2))
        .limit(x=(LEFT, RIGHT), y=(0, 1.02))
        .label(x="reward $r$", y="$\\Phi(r)$", title="$k=2$")
        .plot()
    )
    axes.set_xticks([LEFT, -1, end, RIGHT], [f"${LEFT:g}$", "$-1$", f"$R={end:g}$", f"${RIGHT:g}$"])
    axes.text(
        -2.8, 0.85, f"area {area:.3f}\n= weight/2", va="center", bbox={"color": "white", "pad": 0}
    )


FIGURE = Figure("fig_maxk_weight", CAPTION, COLUMNS, table, draw)
