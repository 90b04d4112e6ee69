"""RSPO's weights of a response, in closed form (the paper's figures 4 and 5).

Pass@k (section 4.2), of a correct response, where p = P(a response is correct):

    weight(k, p) = k (1 - p)^(k-1)

k = 1 is policy gradient, with weight 1 for every p. For k > 1 the weight falls from k to 0 and is 1
at p = 1 - k^(-1/(k-1)), which tends to 1 - 1/e as k tends to 1.

Max@k (section 4.3), of a response with reward R, where rewards are standard normal:

    weight(k, R) = k sum_{y' < y} (R(y) - R(y')) pi(y') (k-1) P_<=(y')^(k-2)
                 = k int_{-inf}^{R} (R - r) (k-1) Phi(r)^(k-2) phi(r) dr
                 = k int_{-inf}^{R} Phi(r)^(k-1) dr                 (by parts)

For k = 2 this is twice the area under the cumulative distribution Phi up to R, which is
R Phi(R) + phi(R).
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import label_of
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture
from rspo.objectives import OBJECTIVES
from rspo.objectives.diagnose import diagnose

Floats = NDArray[np.float64]

PASS_KS = (1, 2, 4, 8)
# The right panel draws the boundary at k = 1, 1 + 1/4, ... 16. Only integers k have a meaning; the
# curve between them guides the eye.
BOUNDARY_KS = np.arange(4, 65) / 4


def boundary(k: float) -> float:
    """The p at which the weight is 1: 1 - k^(-1/(k-1)), and its limit 1 - 1/e at k = 1."""
    exponent = 1.0 if k == 1 else math.log(k) / (k - 1)
    return -math.expm1(-exponent)


def lines_of(objective: str, ks: Sequence[int]) -> list[Method]:
    """A line for each k, with the styles of the figures of results."""
    return [
        Method(
            label_of(objective, k),
            objective=objective,
            k=k if OBJECTIVES[objective].has_k else None,
        )
        for k in ks
    ]


def pass_table() -> pd.DataFrame:
    """One row for each point."""
    p = np.arange(101) / 100
    # F'(p) of the weights that training uses; policy gradient's at k = 1.
    lines = {k: diagnose("rspo_pass_at_k", k, max(PASS_KS), p).weights.slope for k in PASS_KS}
    rows = [("weight", k, *point) for k in PASS_KS for point in zip(p, lines[k], strict=True)]
    rows += [("boundary", k, boundary(k), 1.0) for k in BOUNDARY_KS]
    # The CSV has 2 on the left and 2.0 on the right.
    return pd.DataFrame(rows, columns=["panel", "k", "w", "weight"], dtype=object)


def draw_pass(table: pd.DataFrame) -> Picture:
    numbers = table.astype({"k": float, "w": float, "weight": float})
    picture = style.new_picture(style.COLUMN_WIDTH, 2.4)
    left, right = picture.subplots(1, 2)
    lines = lines_of("policy_gradient", PASS_KS[:1]) + lines_of("rspo_pass_at_k", PASS_KS[1:])
    rows = numbers[numbers["panel"] == "weight"]
    looks = {k: style.look(method) for k, method in zip(PASS_KS, lines, strict=True)}
    style.draw(left, rows, looks, "w", "weight", by="k", every=20, clip=False)
    left.set(xlabel="$p$", xlim=(0, 1), ylim=(0, 8.4))
    left.set_ylabel("$k(1-p)^{k-1}$", size=style.FORMULA)
    _draw_regions(right, numbers[numbers["panel"] == "boundary"])
    _legend(picture, lines)
    style.note(
        picture,
        "p: probability of a correct response",
        "PG is k = 1: weight 1 for every p (right, hollow: the limit)",
    )
    return picture


def _legend(picture: Picture, lines: Sequence[Method]) -> None:
    """All lines in one row; the label of a drawn line is its k, which PG has not."""
    style.legend(picture, {str(method.k or 1): method.label for method in lines})


def _draw_regions(axes: Axes, table: pd.DataFrame) -> None:
    above = table.assign(part="above", low=0.0, high=table["w"])
    below = table.assign(part="below", low=table["w"], high=1.0)
    colours = {"above": style.Look(style.ABOVE), "below": style.Look(style.BELOW)}
    regions = pd.concat([above, below])
    style.draw(axes, regions, colours, "k", by="part", ends=("low", "high"), alpha=1)
    style.draw(axes, table, {"boundary": style.Look(style.INK)}, "k", "w", by="panel")
    points = table[table["k"].isin(range(1, 17))]
    looks = {
        False: style.Look(style.INK, marker="o", size=2.5),
        True: style.Look(style.INK, marker="o", size=3.5, filled=False),
    }
    limit = points.assign(limit=points["k"] == 1)
    style.draw(axes, limit, looks, "k", "w", by="limit", kind="points", clip=False)
    style.make_log2(axes, [1, 2, 4, 8, 16])
    axes.set(xlabel="$k$", ylabel="$p$", xlim=(1, 16), ylim=(0, 1))
    axes.text(1.3, 0.06, "weight > 1", ha="left", size=8)
    axes.text(14, 0.9, "weight < 1", ha="right", size=8)


MAX_KS = (2, 4, 8)
R = 1.0  # right end of the filled area
LEFT, RIGHT = -3.0, 3.0
STEP = 0.05
# Phi(-10) is 1e-23, too small to change a float64 sum.
START = -10.0


def gradient_weight(k: int, rewards: Floats) -> Floats:
    """k int_{-inf}^{R} Phi(r)^(k-1) dr at each R of an ascending grid, to about 1e-14.

    Gauss-Legendre with 16 nodes between neighbours of the grid, extended down to START.
    """
    from scipy.special import ndtr

    down = np.arange(START, rewards[0], STEP)
    edges = np.concatenate([down, rewards])
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (1 + nodes)
    pieces = (half * node_weights * ndtr(points) ** (k - 1)).sum(axis=1)
    return k * np.concatenate([[0.0], np.cumsum(pieces)])[len(down) :]


def max_table() -> pd.DataFrame:
    """One row for each point, and one for the area."""
    from scipy.special import ndtr

    grid = np.linspace(LEFT, RIGHT, round((RIGHT - LEFT) / STEP) + 1)
    up_to_r, end = grid[grid <= R + STEP / 2], np.array([R])
    parts = [
        ("cdf", 2, grid, ndtr(grid)),
        ("filled", 2, up_to_r, ndtr(up_to_r)),
        ("area", 2, end, gradient_weight(2, end) / 2),
        *(("weight", k, grid, gradient_weight(k, grid)) for k in MAX_KS),
    ]
    # Rounding removes the rounding errors of the grid, such as 0.30000000000000027.
    return pd.concat(
        [
            pd.DataFrame({"panel": panel, "k": k, "reward": reward.round(10), "value": value})
            for panel, k, reward, value in parts
        ],
        ignore_index=True,
    )


def draw_max(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 2.2)
    left, right = picture.subplots(1, 2)
    panels = dict(iter(table.groupby("panel")))
    end, area = panels["area"][["reward", "value"]].iloc[0]
    filled = panels["filled"]
    lines = lines_of("rspo_max_at_k", MAX_KS)
    looks = {k: style.look(method) for k, method in zip(MAX_KS, lines, strict=True)}
    colour = looks[2].colour
    area_look, line_look = {"filled": style.Look(colour)}, {"cdf": style.Look(style.INK)}
    ends = ("zero", "value")
    style.draw(
        left, filled.assign(zero=0.0), area_look, "reward", by="panel", ends=ends, alpha=0.35
    )
    style.draw(left, panels["cdf"], line_look, "reward", "value", by="panel")
    left.set(xlabel="reward $r$", ylabel="$\\Phi(r)$", title="$k=2$")
    left.set(xlim=(LEFT, RIGHT), ylim=(0, 1.02))
    left.set_xticks([LEFT, -1, end, RIGHT], [f"${LEFT:g}$", "$-1$", f"$R={end:g}$", f"${RIGHT:g}$"])
    words = f"area {area:.3f}\n= weight/2"
    left.text(-2.8, 0.85, words, va="center", bbox={"color": "white", "pad": 0})
    style.draw(right, panels["weight"], looks, "reward", "value", by="k", every=20)
    right.set(xlabel="reward $R$", ylabel="gradient weight", title="several $k$")
    right.set(xlim=(LEFT, RIGHT), ylim=(0, 14))
    _legend(picture, lines)
    style.note(picture, "standard normal rewards; \u03a6: their cumulative distribution")
    return picture


PASS_AT_K = Figure(
    "fig_passk_weight",
    "Left: RSPO's Pass@k weight k(1-p)^(k-1) of a correct response against the probability p of a "
    "correct response; right: where the weight is above 1 (green, amplified) and below 1 (red, "
    "damped), with the exact boundary p = 1 - k^(-1/(k-1)).",
    pass_table,
    draw_pass,
)
MAX_AT_K = Figure(
    "fig_maxk_weight",
    "Standard normal rewards; left: for k = 2 the area under the cumulative distribution up to a "
    "reward R is that response's weight divided by k; right: the weight, k times the integral of "
    "the distribution's (k-1)-th power up to R, against R.",
    max_table,
    draw_max,
)
