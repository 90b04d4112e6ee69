"""Entropy of the policy during training (the paper's figure 7).

The entropy of a step is the mean over the tokens of its responses of -sum_t p(t) log p(t), in nats.
"""

from dataclasses import replace

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Picture
from rspo.figures.training_lines import averaged, explain, logged


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each step of each line."""
    # Steps on either side of the moving average: 5 if there are 200 steps.
    half = max(1, experiment.config.training.steps // 40)
    lines = []
    for method in figure.methods(experiment):
        lines.append(averaged(method, logged(experiment, method, "entropy"), half))
    return pd.concat(lines, ignore_index=True).rename(columns={"estimate": "entropy"})


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
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
    every = max(1, steps // 6)  # about six markers on each line
    style.draw(axes, table, looks, "step", "smoothed", ends=ends, every=every, clip=False)
    axes.set(xlabel="training step", ylabel="entropy (nats per token)", xlim=(0, steps + 1))
    explain(picture, table, experiment, methods, "thin: each step; thick: centred", one_seed="")
    return picture


FIGURE = Figure(
    "fig_entropy",
    "Entropy of the policy (mean over tokens, in nats) at each training step for policy gradient "
    "(PG) and RSPO; thin: each step, averaged over seeds; thick: its centred moving average; "
    "shaded, with several training seeds: from the lowest to the highest seed.",
    table,
    draw,
    grids=("main",),
    objectives=("policy_gradient", "rspo_pass_at_k"),
    inputs=("training_logs",),
)
