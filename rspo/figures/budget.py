"""The methods at equal numbers of responses, tokens and seconds, not only at equal steps.

Only the first pass over the training set is drawn: its prompts are new to the policy at each step,
so Pass@k of a step's prompts is an unbiased estimate for the policy before the step's update.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from rspo.evaluation.statistics import NORMAL
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.log_lines import averaged, explain, first_pass, logged
from rspo.figures.methods import Method, methods_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

CAPTION = (
    "Pass@k of the training prompts during training, against the responses, tokens and seconds "
    "that the policy was trained with before. Only the first pass over the prompts is shown, "
    "because later steps repeat prompts. Lines are moving averages over complete windows; shaded: "
    "from the lowest to the highest training seed, with one seed the 95 % interval over prompts, "
    "not adjusted for the number of comparisons. Seconds are wall-clock time, of each step that "
    "of the fastest seed, because other work on the machine only adds to it; with one seed it is "
    "included."
)
# Cumulative amounts, which are the x axes, and their labels.
BUDGETS = {
    "responses": "responses",
    "tokens": "tokens of responses",
    "seconds": "seconds of training",
}
COLUMNS = {
    "method": "line, as in the legend",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "training step; steps of the first pass with a complete window",
    "responses": "x on the left: sampled before the step",
    "tokens": "x in the middle: of the responses before the step, mean over seeds",
    "seconds": "x on the right: of the steps before, of each that of the fastest seed",
    "metric_k": "k of Pass@k",
    "estimate": "Pass@k of the step's prompts, in %, mean over seeds",
    "smoothed": "y: centred moving average of the estimate",
    "error": "standard error of `smoothed`, from the differences of successive steps",
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines; with one seed "
    "`smoothed` minus 1.96 errors",
    "highest": "upper end of the band",
    "window": "steps in the moving average",
    "seeds": "training seeds averaged",
}


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each step of each line, without the steps whose window is incomplete.

    Raises: InputError for training logs that are missing or incomplete.
    """
    import pandas as pd

    methods = methods_of(experiment, figure.policies(experiment))
    k, steps = _metric_k(methods), first_pass(experiment)
    lines = [_line(experiment, method, k, steps) for method in methods]
    return pd.concat(lines, ignore_index=True)[list(COLUMNS)]


def _metric_k(methods: list[Method]) -> int:
    """The middle one of the trained k; without any, the largest that all logs have."""
    ks = sorted({method.k for method in methods if method.k})
    # The logs have Pass@k for the powers of two up to n.
    most = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    logged_ks = [k for k in ks if k <= most and k & (k - 1) == 0]
    return logged_ks[len(logged_ks) // 2] if logged_ks else most


def _line(experiment: "Experiment", method: Method, k: int, steps: int) -> "pd.DataFrame":
    import pandas as pd

    half = steps // 10
    line = averaged(experiment, method, f"pass_at_{k}", half, steps, unit=100)
    line = line.rename(columns={"value": "estimate"})
    sampled = experiment.config.training.prompts_per_step * (method.n or 1)
    tokens = sampled * averaged(experiment, method, "response_tokens", half, steps)["value"]
    seconds = pd.DataFrame([logged(experiment, cell, "seconds") for cell in method.policies])
    error = error_of_mean(list(line["estimate"]), 2 * half + 1)
    if len(method.policies) == 1:
        ends = {"lowest": -NORMAL * error, "highest": NORMAL * error}
        line = line.assign(**{end: line["smoothed"] + shift for end, shift in ends.items()})
    line = line.assign(
        responses=(line["step"] - 1) * sampled,
        tokens=_before(tokens).round().astype(int),
        seconds=_before(seconds.min().iloc[:steps]),
        metric_k=k,
        error=error,
    )
    return line.iloc[half : steps - half]


def _before(amounts: "pd.Series[float]") -> "pd.Series[float]":
    """The sum of the amounts of all earlier steps."""
    return amounts.cumsum() - amounts


def error_of_mean(estimates: list[float], window: int) -> float:
    """Standard error of a mean of `window` steps.

    The variance of one step is half the mean squared difference of successive steps, which a slow
    trend hardly changes (von Neumann 1941).
    """
    squares = [(b - a) ** 2 for a, b in pairwise(estimates)]
    variance = sum(squares) / len(squares) / 2 if squares else float("nan")
    return float((variance / window) ** 0.5)


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    import seaborn.objects as so

    methods = methods_of(experiment, figure.policies(experiment))
    picture = style.new_picture(style.TEXT_WIDTH, 2.6)
    plot = style.plot(table, picture, y="smoothed").pair(x=list(BUDGETS))
    plot = style.add_intervals(plot, table, methods, "lowest", "highest")
    plot = style.add_lines(plot, table, methods, every=max(1, table["step"].nunique() // 6))
    labels = {f"x{place}": label for place, label in enumerate(BUDGETS.values())}
    thousands = so.Continuous().label(unit=("", ""))  # 10k in place of 10000
    plot = plot.scale(**dict.fromkeys(labels, thousands))
    plot.label(**labels, y=f"Pass@{table['metric_k'].iloc[0]} of training prompts (%)").plot()
    for axes, budget in zip(picture.axes, BUDGETS, strict=True):
        axes.set_title(f"same {budget}")
    one_seed = "shaded: 95 % interval over prompts"
    explain(picture, table, experiment, methods, "first pass over the prompts, centred", one_seed)
    return picture


FIGURE = Figure(
    "fig_budget",
    CAPTION,
    COLUMNS,
    table,
    draw,
    grids=("main",),
    training_logs=True,
    training_set=True,
)
