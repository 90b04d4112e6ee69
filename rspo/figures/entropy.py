"""Entropy of the policy during training (the paper's figure 7, section 5.2).

The trainer logs the entropy of each step: the mean over the tokens of the step's responses of
-sum_t p(t) log p(t), in nats. Seeds are averaged step by step; the band reaches from the lowest to
the highest seed's smoothed line.
"""

from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import face, methods_of
from rspo.figures.training_logs import averaged

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

CAPTION = (
    "Entropy of the policy (mean over tokens, in nats) at each training step for policy gradient "
    "(PG) and RSPO; thin: each step, averaged over seeds; thick: its centred moving average; "
    "shaded, with several training seeds: from the lowest to the highest seed."
)
COLUMNS = {
    "method": "line, as in the legend",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "x: training step, from 1",
    "entropy": "thin line: token mean in nats, mean over seeds",
    "smoothed": "thick line: mean of `entropy` over the steps within the window around this one",
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines",
    "highest": "upper end of the band",
    "window": "steps in that window, fewer at both ends",
    "seeds": "training seeds averaged",
}


def half_window(steps: int) -> int:
    """Steps on either side in the moving average: a fortieth of the training, so 5 of 200."""
    return max(1, steps // 40)


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each step of each line.

    Raises: InputError for training logs that are missing or incomplete.
    """
    import pandas as pd

    steps = experiment.config.training.steps
    lines = [
        averaged(experiment, method, "entropy", half_window(steps), steps)
        for method in methods_of(experiment, figure)
    ]
    return pd.concat(lines, ignore_index=True).rename(columns={"value": "entropy"})


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    import seaborn.objects as so

    methods = methods_of(experiment, figure)
    several = table["seeds"].max() > 1
    steps = int(table["step"].max())
    picture = style.new_picture(style.COLUMN_WIDTH, 2.5)
    plot = style.plot(table, picture, x="step", y="smoothed")
    if several:
        plot = style.add_intervals(plot, table, methods, "lowest", "highest")
    for method in methods:
        thin = so.Line(color=style.line(method)["color"], linewidth=0.5, alpha=0.45)
        plot = plot.add(thin, data=style.rows_of(table, method, "method"), y="entropy")
    plot = style.add_lines(plot, table, methods, every=max(1, steps // 6), clip_on=False)
    plot.label(x="training step", y="entropy (nats per token)").limit(x=(0, steps + 1)).plot()
    style.legend(picture, methods)
    style.note(
        picture,
        f"{face(experiment, figure, methods)}, "
        f"{experiment.config.training.prompts_per_step} prompts per step",
        f"thin: each step; thick: centred mean of {table['window'].iloc[0]} steps",
        *(["shaded: lowest to highest seed"] if several else []),
    )
    return picture


FIGURE = Figure(
    "fig_entropy",
    CAPTION,
    COLUMNS,
    table,
    draw,
    grids=("main",),
    objectives=("policy_gradient", "rspo_pass_at_k"),
    training_logs=True,
)
