"""Variance and signal-to-noise ratio of every objective on a policy with a single logit.

Each response is correct with probability p = sigmoid(theta), so grad log pi is 1-p for a correct
response and -p for a wrong one, and a group of n gives g = (1-p) W+ - p W-, where W+ and W- are the
total weights of correct and wrong responses. Mean and variance of g are exact sums over the
binomial distribution of the number of correct responses. The signal-to-noise ratio is
E[g]^2 / Var[g]. For the mean over P prompts it is P times as large, and a constant factor of g does
not change it. With a single logit, wrong responses tell as much as correct ones; this does not hold
for real policies, which fig_gradient_variance measures.
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

CAPTION = (
    "Exact variance of each objective's gradient for a policy with a single logit, and its "
    "signal-to-noise ratio, the squared mean over the variance: against the probability p of a "
    "correct response (first and second row), and against the objective's k and the number n of "
    "responses (third and fourth row); the last column is per response: the variance times n, and "
    "the ratio divided by n."
)
COLUMNS = {
    "panel": "p: first two rows of panels; k, n: the other two",
    "objective": "name in rspo.objectives",
    "line": "that shows it, as in the legend",
    "k": "of the objective, ignored by objectives without k",
    "n": "responses to a prompt",
    "p": "probability of a correct response",
    "mean": "E[g] of the logit's gradient",
    "variance": "Var[g]; first row, third row left and middle",
    "variance_times_n": "n Var[g]; third row right",
    "signal_to_noise": "E[g]^2 / Var[g]; second row, fourth row left and middle",
    "per_response": "signal_to_noise / n; fourth row right",
}

N, K, HARD = 16, 4, 0.1
KS = (2, 4, 8)
P = tuple(step / 50 for step in range(1, 46))
ALL_KS = (1, 2, 4, 8, 16)
NS = (4, 8, 16, 32, 64)


def table() -> "pd.DataFrame":
    """One row for each point."""
    import pandas as pd

    names = exact_objectives(ALL_KS, N)
    points = [("p", name, k, N, p) for k in KS for name in names for p in P]
    for name in names:
        ks = ALL_KS if OBJECTIVES[name].has_k else (1,)
        points += [("k", name, k, N, HARD) for k in ks]
    points += [("n", name, K, n, HARD) for name in names for n in NS]
    return pd.DataFrame(
        _row(panel, name, k, n, p)
        for panel, name, k, n, p in points
        if OBJECTIVES[name].allows(k, n)
    )


def moments(objective: str, k: int, n: int, p: float) -> tuple[float, float]:
    """E[g] and Var[g]."""
    blocks = blocks_of(objective, k, n)
    chances = binomial(blocks.size, p)
    gradients = (1 - p) * blocks.total_correct - p * blocks.total_wrong
    mean = float(chances @ gradients)
    variance = float(chances @ (gradients - mean) ** 2)
    return blocks.copies * mean, blocks.copies * variance


def _row(panel: str, objective: str, k: int, n: int, p: float) -> dict[str, object]:
    mean, variance = moments(objective, k, n, p)
    ratio = mean**2 / variance if variance else float("nan")
    point = {"k": k, "n": n, "p": p, "mean": mean, "variance": variance}
    return {
        "panel": panel,
        "objective": objective,
        "line": shown_as(objective),
        **point,
        "variance_times_n": n * variance,
        "signal_to_noise": ratio,
        "per_response": ratio / n,
    }


def draw(table: "pd.DataFrame") -> "Picture":
    picture = style.new_picture(style.TEXT_WIDTH, 7.6)
    grid = picture.subplots(4, 3)
    objectives = list(table["objective"].unique())
    for column, k in enumerate(KS):
        of_k = table[(table["panel"] == "p") & (table["k"] == k)]
        for row, quantity in enumerate(("variance", "signal_to_noise")):
            _draw_panel(grid[row][column], of_k, "p", quantity, f"$k={k}$, $n={N}$")
        grid[0][column].set_xlabel("")
    of_k, of_n = (table[table["panel"] == panel] for panel in ("k", "n"))
    fixed_k, fixed_n = f"$p={HARD}$, $k={K}$", f"$p={HARD}$, $n={N}$"
    for row, quantity, by_n, how in (
        (grid[2], "variance", "variance_times_n", "times"),
        (grid[3], "signal_to_noise", "per_response", "divided by"),
    ):
        _draw_panel(row[0], of_k, "k", quantity, fixed_n)
        _draw_panel(row[1], of_n, "n", quantity, fixed_k)
        _draw_panel(row[2], of_n, "n", by_n, f"{fixed_k}, {how} $n$")
    for row, label in zip(grid, ("variance", "signal / noise") * 2, strict=True):
        row[0].set_ylabel(label)
    style.legend(picture, lines(objectives))
    style.note(
        picture,
        "exact; 0/1 rewards, gradient of a single logit",
        SAME_NOTE,
        *not_shown(objectives),
    )
    return picture


_LABELS = {
    "p": "$p$, probability of a correct response",
    "k": "$k$ of the objective",
    "n": "$n$, responses per prompt",
}


def _draw_panel(axes: "Axes", table: "pd.DataFrame", x: str, y: str, title: str) -> None:
    plot = style.plot(table, axes, x=x, y=y).scale(y=style.log10(table[y]))
    if (x, y) == ("p", "signal_to_noise"):  # smaller ratios are of no interest
        limits = (1e-4, 1e3)
        plot = plot.limit(y=limits).scale(y=style.log10(limits))
    plot = plot.limit(x=(0, 1)) if x == "p" else plot.scale(x=style.log2(sorted(set(table[x]))))
    plot = style.add_lines(
        plot, table, lines(table["objective"].unique()), by="objective", every=12 if x == "p" else 1
    )
    plot.label(x=_LABELS[x], y="", title=title).plot()


FIGURE = Figure("fig_estimator_variance", CAPTION, COLUMNS, table, draw, every_objective=True)
