"""RSPO's Max@k weight when rewards are standard normal (the paper's figure 5, section 4.3).

    weight(k, R) = k sum_{y' < y} (R(y) - R(y')) pi(y') (k-1) P_<=(y')^(k-2)
                 = k int_{-inf}^{R} (R - r) (k-1) Phi(r)^(k-2) phi(r) dr
                 = k int_{-inf}^{R} Phi(r)^(k-1) dr                 (by parts)

For k = 2 that is twice the area under the cumulative distribution Phi up to R, which is
R Phi(R) + phi(R).
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from rspo.figures import style
from rspo.figures.drawing import Row

COLUMNS = {
    "panel": "cdf, filled (the part up to R) and area (of all that is filled): left; weight: right",
    "k": "of Max@k",
    "reward": "x: in standard deviations; of the area: R",
    "value": "y: Phi, the area, or the gradient weight",
}

LINES = (2, 4, 8)
R = 1.0  # where the filled area ends
LEFT, RIGHT = -3.0, 3.0
STEP = 0.05
# Phi(-10) is 1e-23: nothing that a float64 sum would notice is left of it.
START = -10.0


def normal_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi, the cumulative distribution of a standard normal reward."""
    values = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x.ravel()]
    return np.array(values).reshape(x.shape)


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


def numbers() -> list[Row]:
    grid = np.linspace(LEFT, RIGHT, round((RIGHT - LEFT) / STEP) + 1)
    cdf = list(zip(grid, normal_cdf(grid), strict=True))
    area = float(gradient_weight(2, np.array([R]))[0]) / 2
    rows = [_row("cdf", 2, reward, value) for reward, value in cdf]
    rows += [_row("filled", 2, reward, value) for reward, value in cdf if reward <= R + STEP / 2]
    rows.append(_row("area", 2, R, area))
    for k in LINES:
        weights = gradient_weight(k, grid)
        rows += [_row("weight", k, *pair) for pair in zip(grid, weights, strict=True)]
    return rows


def _row(panel: str, k: int, reward: float, value: float) -> Row:
    # The grid's own rounding errors (0.30000000000000027) help nobody.
    return {"panel": panel, "k": k, "reward": round(float(reward), 10), "value": float(value)}


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.COLUMN_WIDTH, 2.2)
    left, right = result.subplots(1, 2)
    _draw_cdf(left, rows)
    lines = style.formula_lines(LINES)
    for line in lines:
        reward, value = _of(rows, "weight", line.k)
        right.plot(
            reward,
            value,
            **style.line(line),
            markevery=(len(reward) // 12, len(reward) // 6),
            gid=f"weight/{line.k}",
        )
    right.set(xlabel="reward $R$", ylabel="gradient weight", xlim=(LEFT, RIGHT))
    right.set_title("several $k$", loc="left")
    right.set_ylim(bottom=0)
    style.legend(result, lines)
    style.note(result, "standard normal rewards; \u03a6: their cumulative distribution")
    return result


def _of(rows: Sequence[Row], panel: str, k: int | None) -> tuple[list[float], list[float]]:
    points = [row for row in rows if row["panel"] == panel and row["k"] == k]
    return [float(row["reward"]) for row in points], [float(row["value"]) for row in points]


def _draw_cdf(axes: Axes, rows: Sequence[Row]) -> None:
    colour = style.line(style.formula_lines(LINES)[0])["color"]
    axes.fill_between(*_of(rows, "filled", 2), color=colour, alpha=0.35, linewidth=0, gid="filled")
    axes.plot(*_of(rows, "cdf", 2), color=style.INK, linewidth=1.2, gid="cdf")
    (end,), (area,) = _of(rows, "area", 2)
    axes.set_xticks([LEFT, -1, end, RIGHT], [f"${LEFT:g}$", "$-1$", f"$R={end:g}$", f"${RIGHT:g}$"])
    axes.set(xlabel="reward $r$", ylabel="$\\Phi(r)$", xlim=(LEFT, RIGHT), ylim=(0, 1.02))
    axes.set_title("$k=2$", loc="left")
    axes.text(-2.8, 0.85, f"area {area:.3f}\n= weight/2", va="center", gid="area")
