"""Weights and updates that each objective expects from a prompt of a given difficulty.

A prompt is solved with probability p, and n responses are drawn. Let W+ be the total weight of the
correct responses and W- that of the wrong ones. The expected update follows the gradient of p:

    E[sum_i w_i grad log pi(y_i|x)] = (E[W+] / p - E[W-] / (1-p)) grad p

because the mean of grad log pi is (grad p)/p over correct responses and -(grad p)/(1-p) over wrong
ones. The factor in parentheses is 1 for policy gradient and k (1-p)^(k-1) for every estimator that
is unbiased for Pass@k, including the hitchhiking baseline. These estimators differ in the weight of
wrong responses. The figure draws the update of the logit of p, for which grad p = p (1-p). All
expectations are exact sums over the binomial distribution of the number of correct responses.
"""

from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.binary_groups import (
    SAME_NOTE,
    binomial,
    blocks_of,
    exact_objectives,
    lines,
    not_shown,
    shown_as,
)
from rspo.figures.figure import Figure
from rspo.objectives import OBJECTIVES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

CAPTION = (
    "What each objective does with a prompt that is solved with probability p, in exact "
    "expectation: the total weight of correct responses (top) and of wrong ones (middle), and the "
    "resulting update of p's logit (bottom). RSPO and the baseline have the same update, but the "
    "baseline also gives weight to wrong responses."
)
COLUMNS = {
    "objective": "name in rspo.objectives",
    "line": "that shows it, as in the legend",
    "k": "column of panels: of the objective, ignored by objectives without k",
    "n": "responses to the prompt",
    "p": "x: probability of a correct response",
    "correct_weight": "first row of panels: expected total weight of the correct responses",
    "wrong_weight": "second row: of the wrong responses",
    "factor": "of grad p in the expected update",
    "update": "third row: expected update of p's logit, p (1-p) times the factor",
}

N = 16
KS = (2, 4, 8)
P = tuple(step / 50 for step in range(1, 50))


def table() -> "pd.DataFrame":
    """One row for each objective, k and p."""
    import pandas as pd

    objectives = exact_objectives(KS, N)
    return pd.DataFrame(
        _row(objective, k, p)
        for k in KS
        for objective in objectives
        if OBJECTIVES[objective].allows(k, N)
        for p in P
    )


def _row(objective: str, k: int, p: float) -> dict[str, object]:
    blocks = blocks_of(objective, k, N)
    chances = binomial(blocks.size, p)
    correct = blocks.copies * float(chances @ blocks.total_correct)
    wrong = blocks.copies * float(chances @ blocks.total_wrong)
    factor = correct / p - wrong / (1 - p)
    return {
        "objective": objective,
        "line": shown_as(objective),
        "k": k,
        "n": N,
        "p": p,
        "correct_weight": correct,
        "wrong_weight": wrong,
        "factor": factor,
        "update": p * (1 - p) * factor,
    }


def draw(table: "pd.DataFrame") -> "Picture":
    picture = style.new_picture(style.TEXT_WIDTH, 5.6)
    limits = (1e-3, 10)
    objectives = list(table["objective"].unique())
    methods = lines(objectives)
    plot = (
        style.plot(table, picture, x="p")
        .pair(y=["correct_weight", "wrong_weight", "update"])
        .facet(col="k")
        .scale(y0=style.log10(limits), y2=style.log10(limits))
        .limit(x=(0, 1), y0=limits, y2=limits)
    )
    style.add_lines(plot, table, methods, by="objective", every=12).label(
        x="$p$, probability of a correct response",
        y0="weight of correct",
        y1="weight of wrong",
        y2="expected update",
        title=lambda k: f"$k={k}$",
    ).plot()
    for axes in picture.axes:
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
    style.legend(picture, methods)
    style.note(picture, f"exact; 0/1 rewards, groups of n = {N}", SAME_NOTE, *not_shown(objectives))
    return picture


FIGURE = Figure("fig_weight_by_difficulty", CAPTION, COLUMNS, table, draw, every_objective=True)
