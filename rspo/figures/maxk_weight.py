"""RSPO's Max@k weight of a response, in closed form (the paper's figure 5).

The weight of a response with reward R, where rewards are standard normal (section 4.3):

    weight(k, R) = k sum_{y' < y} (R(y) - R(y')) pi(y') (k-1) P_<=(y')^(k-2)
                 = k int_{-inf}^{R} (R - r) (k-1) Phi(r)^(k-2) phi(r) dr
                 = k int_{-inf}^{R} Phi(r)^(k-1) dr                 (by parts)

Response y' has the probability pi(y'), and a reward of at most R(y') has the probability P_<=(y').
Phi and phi are the distribution function and the density of the standard normal distribution.

For k = 2 this is twice the area under the cumulative distribution Phi up to R, which is
R Phi(R) + phi(R).
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture
from rspo.figures.weight_lines import add_legend, lines_of

Floats = NDArray[np.float64]

KS = (2, 4, 8)
R = 1.0  # right end of the filled area
# The smallest and the largest reward that the panels show.
LEFT = -3.0
RIGHT = 3.0
GRID_STEP = 0.05
# Phi(-10) is 1e-23, too small to change a float64 sum.
LOWEST_REWARD = -10.0


def gradient_weight(k: int, rewards: Floats) -> Floats:
    """k int_{-inf}^{R} Phi(r)^(k-1) dr at each R of an ascending grid, to about 1e-14.

    Gauss-Legendre quadrature with 16 nodes integrates between neighbours of the grid, which is
    extended down to LOWEST_REWARD.

    Args:
        rewards: the grid, [points]; ascending.

    Returns: [points].
    """
    from scipy.special import ndtr

    below = np.arange(LOWEST_REWARD, rewards[0], GRID_STEP)
    edges = np.concatenate([below, rewards])
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (1 + nodes)
    pieces = (half * node_weights * ndtr(points) ** (k - 1)).sum(axis=1)
    integrals = np.concatenate([[0.0], np.cumsum(pieces)])
    return k * integrals[len(below) :]


def table() -> pd.DataFrame:
    """One row for each point, and one for the area."""
    from scipy.special import ndtr

    grid = np.linspace(LEFT, RIGHT, round((RIGHT - LEFT) / GRID_STEP) + 1)
    up_to_r = grid[grid <= R + GRID_STEP / 2]  # has R itself, whatever its rounding error
    end = np.array([R])
    parts = [
        _part("cdf", 2, grid, ndtr(grid)),
        _part("filled", 2, up_to_r, ndtr(up_to_r)),
        _part("area", 2, end, gradient_weight(2, end) / 2),
    ]
    parts += [_part("weight", k, grid, gradient_weight(k, grid)) for k in KS]
    return pd.concat(parts, ignore_index=True)


def _part(panel: str, k: int, rewards: Floats, values: Floats) -> pd.DataFrame:
    # Rounding removes the rounding errors of the grid, such as 0.30000000000000027.
    return pd.DataFrame({"panel": panel, "k": k, "reward": rewards.round(10), "value": values})


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 2.2)
    left, right = picture.subplots(1, 2)
    panels = dict(iter(table.groupby("panel")))
    lines = lines_of("rspo_max_at_k", KS)
    looks = {k: style.look(method) for k, method in zip(KS, lines, strict=True)}
    _draw_area(left, panels, looks[2].colour)
    style.draw(right, panels["weight"], looks, "reward", "value", by="k", every=20)
    right.set(xlabel="reward $R$", ylabel="gradient weight", title="several $k$")
    right.set(xlim=(LEFT, RIGHT), ylim=(0, 14))
    add_legend(picture, lines)
    style.note(picture, "standard normal rewards; \u03a6: their cumulative distribution")
    return picture


def _draw_area(axes: Axes, panels: dict[str, pd.DataFrame], colour: str) -> None:
    """Draw the distribution function, and fill the area below it up to R."""
    end, area = panels["area"][["reward", "value"]].iloc[0]
    filled = panels["filled"].assign(zero=0.0)
    area_look = {"filled": style.Look(colour)}
    ends = ("zero", "value")
    style.draw(axes, filled, area_look, "reward", by="panel", ends=ends, alpha=0.35)
    line_look = {"cdf": style.Look(style.INK)}
    style.draw(axes, panels["cdf"], line_look, "reward", "value", by="panel")
    axes.set(xlabel="reward $r$", ylabel="$\\Phi(r)$", title="$k=2$")
    axes.set(xlim=(LEFT, RIGHT), ylim=(0, 1.02))
    axes.set_xticks([LEFT, -1, end, RIGHT], [f"${LEFT:g}$", "$-1$", f"$R={end:g}$", f"${RIGHT:g}$"])
    words = f"area {area:.3f}\n= weight/2"
    axes.text(-2.8, 0.85, words, va="center", bbox={"color": "white", "pad": 0})


FIGURE = Figure(
    "fig_maxk_weight",
    "Standard normal rewards; left: for k = 2 the area under the cumulative distribution up to a "
    "reward R is that response's weight divided by k; right: the weight, k times the integral of "
    "the distribution's (k-1)-th power up to R, against R.",
    table,
    draw,
)
