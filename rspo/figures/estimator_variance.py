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
    "panel": "p: first two rows of panels; k, n: the other two",
    "objective": "as `rspo.objectives` names it",
    "line": "that shows it, as the legend names it",
    "k": "of the objective, ignored by those without one",
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
        "variance_times_n": n * variance,
        "signal_to_noise": mean**2 / variance,
        "per_response": mean**2 / variance / n,
    }


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.TEXT_WIDTH, 7.6)
    grid = result.subplots(4, 3)
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
    _draw_against_k_and_n(list(grid[2]), rows, "variance", "variance_times_n")
    _draw_against_k_and_n(list(grid[3]), rows, "signal_to_noise", "per_response")
    grid[2][0].set_ylabel("variance")
    grid[3][0].set_ylabel("signal / noise")
    grid[2][2].set_title("times $n$", loc="left")
    grid[3][2].set_title("divided by $n$", loc="left")
    style.legend(result, lines())
    style.note(result, "exact; 0/1 rewards, gradient of a single logit", same_note())
    return result


def _draw_against_k_and_n(
    panels: Sequence[Axes], rows: Sequence[Row], quantity: str, by_response: str
) -> None:
    of_k, of_n = ([row for row in rows if row["panel"] == name] for name in ("k", "n"))
    _draw_panel(panels[0], of_k, "k", quantity, 1)
    _draw_panel(panels[1], of_n, "n", quantity, 1)
    _draw_panel(panels[2], of_n, "n", by_response, 1)
    panels[0].set_title(f"$p={HARD}$, $n={N}$", loc="left")
    panels[1].set_title(f"$p={HARD}$, $k={K}$", loc="left")
    for axes, name, values in zip(panels, ("k", "n", "n"), (ALL_KS, NS, NS), strict=True):
        style.log2_axis(axes, values)
        style.log10_axis(axes, "y")
        axes.set_xlabel(f"${name}$")


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
