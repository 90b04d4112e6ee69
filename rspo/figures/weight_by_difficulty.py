"""What each objective does with a prompt of a given difficulty, in expectation.

A prompt is solved with probability p, and n responses are drawn. With W+ and W- the total weights
of the correct and of the wrong ones, the expected update is along the gradient of p:

    E[sum_i w_i grad log pi(y_i|x)] = (E[W+] / p - E[W-] / (1-p)) grad p

because the mean of grad log pi is (grad p)/p over correct responses and -(grad p)/(1-p) over wrong
ones. The bracket is 1 for policy gradient and k (1-p)^(k-1) for whatever is unbiased for Pass@k,
the hitchhiking baseline included: they differ in what they spend on wrong responses. The update
that is drawn is that of the logit of p, whose gradient is grad p = p (1-p). All expectations are
exact sums over the binomial distribution of the number of correct responses.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.figures import style
from rspo.figures.binary_groups import binomial, blocks_of, lines, same_note, shown_as
from rspo.figures.drawing import Row
from rspo.objectives import OBJECTIVES

COLUMNS = {
    "objective": "as `rspo.objectives` names it",
    "line": "that shows it, as the legend names it",
    "k": "column of panels: of the objective, ignored by those without one",
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

PANELS = {
    "correct_weight": "weight on correct",
    "wrong_weight": "weight on wrong",
    "update": "expected update",
}


def numbers() -> list[Row]:
    """One row for each objective, k and p."""
    return [_row(objective, k, p) for k in KS for objective in OBJECTIVES for p in P]


def _row(objective: str, k: int, p: float) -> Row:
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


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.TEXT_WIDTH, 5.6)
    grid = result.subplots(len(PANELS), len(KS), sharex=True, sharey="row")
    for place, (quantity, label) in enumerate(PANELS.items()):
        for axes, k in zip(grid[place], KS, strict=True):
            _draw_panel(axes, [row for row in rows if row["k"] == k], quantity)
        grid[place][0].set_ylabel(label)
    for axes in (*grid[0], *grid[2]):
        style.log10_axis(axes, "y")
        axes.set_ylim(1e-3, 10)
    for axes, k in zip(grid[0], KS, strict=True):
        axes.set_title(f"$k={k}$", loc="left")
    for axes in grid[-1]:
        axes.set_xlabel("$p$, probability of a correct response")
    style.legend(result, lines())
    style.note(result, f"exact; 0/1 rewards, groups of n = {N}", same_note())
    return result


def _draw_panel(axes: Axes, rows: Sequence[Row], quantity: str) -> None:
    for height, method in enumerate(lines(), start=2):
        points = [row for row in rows if row["objective"] == method.objective]
        axes.plot(
            [row["p"] for row in points],
            [row[quantity] for row in points],
            **style.line(method),
            markevery=(2 * height, 12),  # where lines coincide, their markers do not
            zorder=height,
            gid=method.label,
        )
    axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1, gid="guide")
    axes.set_xlim(0, 1)
