"""Pass@k of the training prompts against steps and against responses, for several n.

The figure draws only the first pass over the training set: its prompts are new to the policy, so
the Pass@k of a step is an unbiased estimate for the policy before the step's update. Later, Pass@k
jumps when a pass starts.
"""

from itertools import pairwise

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table
from rspo.evaluation.statistics import NORMAL_QUANTILE
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Picture
from rspo.figures.training_lines import averaged, explain, logged

COLUMNS = [
    "method",
    "trained_k",
    "n",
    "step",
    "responses",
    "metric_k",
    "estimate",
    "smoothed",
    "error",
    "lowest",
    "highest",
    "window",
    "seeds",
]


def first_pass(experiment: Experiment) -> int:
    """The number of training steps before prompts repeat; all steps if no prompt repeats."""
    training = experiment.config.training
    problems = read_table(experiment.files.problems("train"), PROBLEMS)
    return min(training.steps, len(problems) // training.prompts_per_step)


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each step of each line, without the steps whose window is incomplete."""
    methods = figure.methods(experiment)
    steps = first_pass(experiment)
    half = steps // 10  # the window is a fifth of the first pass
    # The logs have Pass@k for the powers of two up to n. This is the largest that all logs have.
    k = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    lines = []
    for method in methods:
        passed = 100 * logged(experiment, method, f"pass_at_{k}").iloc[:steps]
        line = averaged(method, passed, half).assign(metric_k=k)
        # With one seed, the band is the interval over prompts instead of the range of the seeds.
        line["error"] = error_of_mean(list(line["estimate"]), 2 * half + 1)
        if line["seeds"].max() == 1:
            line["lowest"] = line["smoothed"] - NORMAL_QUANTILE * line["error"]
            line["highest"] = line["smoothed"] + NORMAL_QUANTILE * line["error"]
        responses_per_step = experiment.config.training.prompts_per_step * line["n"]
        line["responses"] = line["step"] * responses_per_step
        lines.append(line.iloc[half : steps - half])
    return pd.concat(lines, ignore_index=True)[COLUMNS]


def error_of_mean(estimates: list[float], window: int) -> float:
    """Standard error of a mean of `window` steps; NaN for a single estimate.

    The variance of one step is half the mean squared difference of successive steps, which a slow
    trend hardly changes (von Neumann 1941).
    """
    squares = [(b - a) ** 2 for a, b in pairwise(estimates)]
    variance = sum(squares) / len(squares) / 2 if squares else float("nan")
    return float((variance / window) ** 0.5)


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    methods = figure.methods(experiment)
    labels = {"step": "training step", "responses": "total number of responses"}
    picture = style.new_picture(style.TEXT_WIDTH, 2.6)
    panels = picture.subplots(1, len(labels), sharey=True)
    every = max(1, table["step"].nunique() // 6)
    for axes, (x, label) in zip(panels, labels.items(), strict=True):
        ends = ("lowest", "highest")
        style.draw(axes, table, style.looks(methods), x, "smoothed", ends=ends, every=every)
        axes.set(xlabel=label, title=f"same {'prompts' if x == 'step' else x}")
    style.make_log10(panels[1], "x", (1, 2, 5))
    panels[1].label_outer()
    panels[0].set_ylabel(f"Pass@{table['metric_k'].iloc[0]} of training prompts (%)")
    lines = "first pass over the prompts, centred"
    one_seed = "shaded: 95 % interval over prompts"
    explain(picture, table, experiment, methods, lines, one_seed)
    return picture


FIGURE = Figure(
    "fig_sample_efficiency",
    "Pass@k of the training prompts while RSPO is trained with different numbers n of responses "
    "per prompt, against the training step (left) and against the total number of responses drawn "
    "(right). Only the first pass over the prompts is shown, because later steps repeat prompts. "
    "Lines are moving averages over complete windows; shaded: from the lowest to the highest "
    "training seed, with one seed the 95 % interval over prompts, not adjusted for the number of "
    "comparisons. If the learning rate falls with the step, then at the same number of responses a "
    "smaller n is closer to the end of its schedule.",
    table,
    draw,
    grids=("scalability",),
    inputs=("training_logs", "training_set"),
)
