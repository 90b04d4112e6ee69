"""Variance and signal-to-noise ratio of every objective on a policy with a single logit.

Each response is correct with probability p = sigmoid(theta), so grad log pi is 1-p for a correct
response and -p for a wrong one, and a group of n gives g = (1-p) W+ - p W-. Its mean and variance
are exact sums over the binomial distribution of the number of correct responses. The signal-to-
noise ratio is E[g]^2 / Var[g]: of the mean over P prompts it is P times as much, and a factor
before g does not change it. With a single logit a wrong response tells as much as a correct one; on
a real policy it does not, and there fig_gradient_variance has the last word.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.figures import style
from rspo.figures.binary_groups import binomial, blocks_of, lines, same_note, shown_as
from rspo.figures.drawing import Row
from rspo.objectives import OBJECTIVES
from rspo.objectives.registry import KRule

COLUMNS = {
    "panel": "p: first two rows of panels; k, n: the third row",
    "objective": "as `rspo.objectives` names it",
    "line": "that shows it, as the legend names it",
    "k": "of the objective, ignored by those without one",
    "n": "responses to a prompt",
    "p": "probability of a correct response",
    "mean": "E[g] of the logit's gradient",
    "variance": "Var[g]; first row",
    "signal_to_noise": "E[g]^2 / Var[g]; second row, third row left and middle",
    "per_response": "signal_to_noise / n; third row right",
}

N, K, HARD = 16, 4, 0.1
KS = (2, 4, 8)
P = tuple(step / 50 for step in range(1, 46))
ALL_KS = (1, 2, 4, 8, 16)
NS = (4, 8, 16, 32, 64)


def numbers() -> list[Row]:
    """One row for each point."""
    rows = [_row("p", name, k, N, p) for k in KS for name in OBJECTIVES for p in P]
    rows += [_row("k", name, k, N, HARD) for name in OBJECTIVES for k in _ks(name)]
    rows += [_row("n", name, K, n, HARD) for name in OBJECTIVES for n in NS]
    return rows


def _ks(objective: str) -> tuple[int, ...]:
    return (1,) if OBJECTIVES[objective].k_rule is KRule.NONE else ALL_KS


def moments(objective: str, k: int, n: int, p: float) -> tuple[float, float]:
    """E[g] and Var[g]."""
    blocks = blocks_of(objective, k, n)
    chances = binomial(blocks.size, p)
    gradients = (1 - p) * blocks.total_correct - p * blocks.total_wrong
    mean = float(chances @ gradients)
    variance = float(chances @ (gradients - mean) ** 2)
    return blocks.copies * mean, blocks.copies * variance


def _row(panel: str, objective: str, k: int, n: int, p: float) -> Row:
    mean, variance = moments(objective, k, n, p)
    return {
        "panel": panel,
        "objective": objective,
        "line": shown_as(objective),
        "k": k,
        "n": n,
        "p": p,
        "mean": mean,
        "variance": variance,
        "signal_to_noise": mean**2 / variance,
        "per_response": mean**2 / variance / n,
    }


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.TEXT_WIDTH, 6.0)
    grid = result.subplots(3, 3)
    for column, k in enumerate(KS):
        of_k = [row for row in rows if row["panel"] == "p" and row["k"] == k]
        for place, quantity in enumerate(("variance", "signal_to_noise")):
            _draw_panel(grid[place][column], of_k, "p", quantity, 12)
            style.log10_axis(grid[place][column], "y")
            grid[place][column].set_xlim(0, 1)
            grid[place][column].set_xlabel("$p$, probability of a correct response")
        grid[0][column].set_title(f"$k={k}$, $n={N}$", loc="left")
        grid[1][column].set_ylim(1e-4, 1e3)
    grid[0][0].set_ylabel("variance")
    grid[1][0].set_ylabel("signal / noise")
    _draw_last_row(list(grid[2]), rows)
    style.legend(result, lines())
    style.note(result, "exact; 0/1 rewards, gradient of a single logit", same_note())
    return result


def _draw_last_row(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    against_k, against_n, per_response = panels
    _draw_panel(against_k, [row for row in rows if row["panel"] == "k"], "k", "signal_to_noise", 1)
    of_n = [row for row in rows if row["panel"] == "n"]
    _draw_panel(against_n, of_n, "n", "signal_to_noise", 1)
    _draw_panel(per_response, of_n, "n", "per_response", 1)
    against_k.set_ylabel("signal / noise")
    against_k.set_title(f"$p={HARD}$, $n={N}$", loc="left")
    against_n.set_title(f"$p={HARD}$, $k={K}$", loc="left")
    per_response.set_title(f"$p={HARD}$, $k={K}$, divided by $n$", loc="left")
    for axes, name, values in zip(panels, ("k", "n", "n"), (ALL_KS, NS, NS), strict=True):
        style.log2_axis(axes, values)
        axes.set_xlabel(f"${name}$")
    style.log10_axis(against_n, "y")
    for axes in (against_k, per_response):
        axes.set_ylim(bottom=0)


def _draw_panel(axes: Axes, rows: Sequence[Row], x: str, y: str, every: int) -> None:
    for height, method in enumerate(lines(), start=2):
        points = [row for row in rows if row["objective"] == method.objective]
        axes.plot(
            [row[x] for row in points],
            [row[y] for row in points],
            **style.line(method),
            markevery=(2 * height % every, every),
            zorder=height,
            gid=method.label,
        )
