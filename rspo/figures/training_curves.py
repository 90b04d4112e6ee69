"""Figures of training logs: entropy (the paper's figure 7) and sample efficiency.

A log has the entropy of each step, which is the mean over the tokens of the step's responses of
-sum_t p(t) log p(t), in nats, and the Pass@k of its prompts.

Of Pass@k, only the first pass over the training set is drawn: its prompts are new to the policy, so
it is an unbiased estimate for the policy before the step's update. Later, Pass@k jumps when a pass
starts.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table
from rspo.evaluation.statistics import NORMAL
from rspo.figures import style
from rspo.figures.figure import Figure, run_description
from rspo.figures.style import Picture
from rspo.training.logs import column, read_log

PASSES = [
    *("method", "trained_k", "n", "step", "responses", "metric_k", "estimate", "smoothed", "error"),
    *("lowest", "highest", "window", "seeds"),
]


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average over up to `half` steps on either side, fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def first_pass(experiment: Experiment) -> int:
    """The number of training steps before prompts repeat, at most all steps."""
    training = experiment.config.training
    problems = read_table(experiment.problems("train"), PROBLEMS)
    return min(training.steps, len(problems) // training.prompts_per_step)


def entropy_table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each step of each line."""
    half = max(1, experiment.config.training.steps // 40)  # steps on either side, so 5 of 200
    methods = figure.methods(experiment)
    lines = [_averaged(method, _logged(experiment, method, "entropy"), half) for method in methods]
    return pd.concat(lines, ignore_index=True).rename(columns={"estimate": "entropy"})


def passes_table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each step of each line, without the steps whose window is incomplete."""
    methods = figure.methods(experiment)
    steps = first_pass(experiment)
    half = steps // 10
    # The logs have Pass@k for the powers of two up to n; the largest that all of them have.
    k = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    lines = []
    for method in methods:
        passed = 100 * _logged(experiment, method, f"pass_at_{k}").iloc[:steps]
        line = _averaged(method, passed, half).assign(metric_k=k)
        line["error"] = error_of_mean(list(line["estimate"]), 2 * half + 1)
        if line["seeds"].max() == 1:
            line["lowest"] = line["smoothed"] - NORMAL * line["error"]
            line["highest"] = line["smoothed"] + NORMAL * line["error"]
        sampled = experiment.config.training.prompts_per_step * line["n"]
        line["responses"] = line["step"] * sampled
        lines.append(line.iloc[half : steps - half])
    return pd.concat(lines, ignore_index=True)[PASSES]


def _averaged(method: Method, values: pd.DataFrame, half: int) -> pd.DataFrame:
    """Mean over seeds, smoothed, and the range of the seeds' own lines; a row for each step.

    Args:
        values: [steps, seeds].
    """
    smooth = values.apply(smoothed, half=half)
    return pd.DataFrame(
        {
            "method": method.label,
            "trained_k": pd.array([method.k] * len(values), "Int64"),
            "n": method.n or 1,
            "step": range(1, len(values) + 1),
            "estimate": values.agg(fmean, axis="columns"),
            "smoothed": smooth.agg(fmean, axis="columns"),
            "lowest": smooth.min(axis="columns"),
            "highest": smooth.max(axis="columns"),
            "window": 2 * half + 1,
            "seeds": values.shape[1],
        }
    )


def _logged(experiment: Experiment, method: Method, key: str) -> pd.DataFrame:
    """The values of `key` in a method's logs, [steps, seeds]."""
    return pd.DataFrame(
        {
            cell: column(experiment.training_log(cell), read_log(experiment, cell), key)
            for cell in method.policies
        }
    )


def error_of_mean(estimates: list[float], window: int) -> float:
    """Standard error of a mean of `window` steps.

    The variance of one step is half the mean squared difference of successive steps, which a slow
    trend hardly changes (von Neumann 1941).
    """
    squares = [(b - a) ** 2 for a, b in pairwise(estimates)]
    variance = sum(squares) / len(squares) / 2 if squares else float("nan")
    return float((variance / window) ** 0.5)


def draw_entropy(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    methods = figure.methods(experiment)
    steps = int(table["step"].max())
    picture = style.new_picture(style.COLUMN_WIDTH, 2.5)
    axes = picture.subplots()
    looks = style.looks(methods)
    thin = {
        label: replace(look, width=0.5, marker="", opacity=0.45) for label, look in looks.items()
    }
    style.draw(axes, table, thin, "step", "entropy")
    ends = ("lowest", "highest") if table["seeds"].max() > 1 else None
    every = max(1, steps // 6)
    style.draw(axes, table, looks, "step", "smoothed", ends=ends, every=every, clip=False)
    axes.set(xlabel="training step", ylabel="entropy (nats per token)", xlim=(0, steps + 1))
    _explain(picture, table, experiment, methods, "thin: each step; thick: centred", "")
    return picture


def draw_passes(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
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
    lines, one_seed = "first pass over the prompts, centred", "shaded: 95 % interval over prompts"
    _explain(picture, table, experiment, methods, lines, one_seed)
    return picture


def _explain(
    picture: Picture,
    table: pd.DataFrame,
    experiment: Experiment,
    methods: Sequence[Method],
    lines: str,
    one_seed: str,
) -> None:
    """The legend, and a note on the lines; `one_seed` is what is shaded with one seed."""
    shaded = one_seed if table["seeds"].max() == 1 else "shaded: lowest to highest seed"
    style.legend_of(picture, methods)
    prompts = experiment.config.training.prompts_per_step
    style.note(
        picture,
        f"{run_description(experiment, methods)}, {prompts} prompts per step",
        f"{lines} mean of {table['window'].iloc[0]} steps",
        *([shaded] if shaded else []),
    )


ENTROPY = Figure(
    "fig_entropy",
    "Entropy of the policy (mean over tokens, in nats) at each training step for policy gradient "
    "(PG) and RSPO; thin: each step, averaged over seeds; thick: its centred moving average; "
    "shaded, with several training seeds: from the lowest to the highest seed.",
    entropy_table,
    draw_entropy,
    grids=("main",),
    objectives=("policy_gradient", "rspo_pass_at_k"),
    inputs=("training_logs",),
)
SAMPLE_EFFICIENCY = Figure(
    "fig_sample_efficiency",
    "Pass@k of the training prompts while RSPO is trained with different numbers n of responses "
    "per prompt, against the training step (left) and against the total number of responses drawn "
    "(right). Only the first pass over the prompts is shown, because later steps repeat prompts. "
    "Lines are moving averages over complete windows; shaded: from the lowest to the highest "
    "training seed, with one seed the 95 % interval over prompts, not adjusted for the number of "
    "comparisons. If the learning rate falls with the step, then at the same number of responses a "
    "smaller n is closer to the end of its schedule.",
    passes_table,
    draw_passes,
    grids=("scalability",),
    inputs=("training_logs", "training_set"),
)
