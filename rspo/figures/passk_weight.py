"""RSPO's Pass@k weight of a correct response, in closed form (the paper's figure 4).

If p is the probability of a correct response, the weight of a correct response is (section 4.2)

    weight(k, p) = k (1 - p)^(k-1)

k = 1 is policy gradient, with weight 1 for every p. For k > 1 the weight falls from k to 0 and is 1
at p = 1 - k^(-1/(k-1)), which tends to 1 - 1/e as k tends to 1.
"""

import math

import numpy as np
import pandas as pd

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture
from rspo.figures.weight_lines import add_legend, lines_of
from rspo.objectives.diagnose import diagnose

KS = (1, 2, 4, 8)
# The right panel draws the boundary at k = 1, 1 + 1/4, ... 16. Only integers k have a meaning; the
# curve between them guides the eye.
BOUNDARY_KS = np.arange(4, 65) / 4


def boundary(k: float) -> float:
    """The p at which the weight is 1: 1 - k^(-1/(k-1)), and its limit 1 - 1/e at k = 1."""
    exponent = 1.0 if k == 1 else math.log(k) / (k - 1)
    return -math.expm1(-exponent)


def table() -> pd.DataFrame:
    """One row for each point."""
    probabilities = np.arange(101) / 100
    rows = []
    for k in KS:
        # `diagnose` computes this slope from the weights that training uses; it equals the formula.
        # RSPO with k = 1 is policy gradient. The column `w` has p.
        slope = diagnose("rspo_pass_at_k", k, max(KS), probabilities).weights.slope
        rows += [("weight", k, p, weight) for p, weight in zip(probabilities, slope, strict=True)]
    rows += [("boundary", k, boundary(k), 1.0) for k in BOUNDARY_KS]
    # The type `object` keeps integers: the CSV has k = 2 for the left panel, 2.0 for the right.
    return pd.DataFrame(rows, columns=["panel", "k", "w", "weight"], dtype=object)


def draw(table: pd.DataFrame) -> Picture:
    numbers = table.astype({"k": float, "w": float, "weight": float})
    picture = style.new_picture(style.COLUMN_WIDTH, 2.4)
    left, right = picture.subplots(1, 2)
    lines = lines_of("policy_gradient", KS[:1]) + lines_of("rspo_pass_at_k", KS[1:])
    rows = numbers[numbers["panel"] == "weight"]
    looks = {k: style.look(method) for k, method in zip(KS, lines, strict=True)}
    style.draw(left, rows, looks, "w", "weight", by="k", every=20, clip=False)
    left.set(xlabel="$p$", xlim=(0, 1), ylim=(0, 8.4))
    left.set_ylabel("$k(1-p)^{k-1}$", size=style.FORMULA)
    _draw_regions(right, numbers[numbers["panel"] == "boundary"])
    add_legend(picture, lines)
    style.note(
        picture,
        "p: probability of a correct response",
        "PG is k = 1: weight 1 for every p (right, hollow: the limit)",
    )
    return picture


def _draw_regions(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the regions where the weight is above and below 1, and the boundary between them."""
    above = table.assign(part="above", low=0.0, high=table["w"])
    below = table.assign(part="below", low=table["w"], high=1.0)
    colours = {"above": style.Look(style.GREEN), "below": style.Look(style.LIGHT_RED)}
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


FIGURE = Figure(
    "fig_passk_weight",
    "Left: RSPO's Pass@k weight k(1-p)^(k-1) of a correct response against the probability p of a "
    "correct response; right: where the weight is above 1 (green, amplified) and below 1 (red, "
    "damped), with the exact boundary p = 1 - k^(-1/(k-1)).",
    table,
    draw,
)
