"""Figures of training logs: entropy (the paper's figure 7, section 5.2) and sample efficiency.

Seeds are averaged step by step; bands reach from the lowest to the highest seed's smoothed line.

The trainer logs the entropy of each step: the mean over the tokens of the step's responses of
-sum_t p(t) log p(t), in nats.

Sample efficiency is Pass@k of the training prompts, for the largest k that all lines have. Only the
first pass over the training set is drawn. In later passes the policy was trained on the prompts
before, so Pass@k jumps when a pass starts, and against the number of responses this jump would look
like an effect of the responses.
"""

from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.log_lines import add_bands, averaged, explain, first_pass, half_window
from rspo.figures.methods import methods_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

_LINE = {
    "method": "line, as in the legend",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
}
_BAND = {
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines",
    "highest": "upper end of the band",
}
_SEEDS = {"seeds": "training seeds averaged"}


def entropy_table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each step of each line.

    Raises: InputError for training logs that are missing or incomplete.
    """
    import pandas as pd

    steps = experiment.config.training.steps
    lines = [
        averaged(experiment, method, "entropy", half_window(steps), steps)
        for method in methods_of(experiment, figure.policies(experiment))
    ]
    return pd.concat(lines, ignore_index=True).rename(columns={"value": "entropy"})


def efficiency_table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each step of each line, without the steps whose window is incomplete.

    Raises: InputError for training logs that are missing or incomplete.
    """
    import pandas as pd

    methods = methods_of(experiment, figure.policies(experiment))
    # The logs have Pass@k for the powers of two up to n.
    k = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    steps = first_pass(experiment)
    half = steps // 10
    lines = [averaged(experiment, m, f"pass_at_{k}", half, steps, unit=100) for m in methods]
    complete = pd.concat([line.iloc[half : steps - half] for line in lines], ignore_index=True)
    prompts = complete["step"] * experiment.config.training.prompts_per_step
    result = complete.rename(columns={"value": "estimate"})
    return result.assign(responses=prompts * complete["n"], metric_k=k)[list(figure.columns)]


def draw_entropy(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    import seaborn.objects as so

    methods = methods_of(experiment, figure.policies(experiment))
    steps = int(table["step"].max())
    picture = style.new_picture(style.COLUMN_WIDTH, 2.5)
    plot = add_bands(style.plot(table, picture, x="step", y="smoothed"), table, methods)
    for method in methods:
        thin = so.Line(color=style.line(method)["color"], linewidth=0.5, alpha=0.45)
        plot = plot.add(thin, data=style.rows_of(table, method, "method"), y="entropy")
    plot = style.add_lines(plot, table, methods, every=max(1, steps // 6), clip_on=False)
    plot.label(x="training step", y="entropy (nats per token)").limit(x=(0, steps + 1)).plot()
    explain(picture, table, experiment, methods, "thin: each step; thick: centred")
    return picture


def draw_efficiency(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    methods = methods_of(experiment, figure.policies(experiment))
    picture = style.new_picture(style.TEXT_WIDTH, 2.6)
    plot = style.plot(table, picture, y="smoothed").pair(x=["step", "responses"])
    plot = add_bands(plot, table, methods)
    plot = style.add_lines(plot, table, methods, every=max(1, table["step"].nunique() // 6))
    plot.scale(x1=style.log10(table["responses"])).label(
        x0="training step",
        x1="total number of responses",
        y=f"Pass@{table['metric_k'].iloc[0]} of training prompts (%)",
    ).plot()
    for axes, title in zip(picture.axes, ("same prompts", "same responses"), strict=True):
        axes.set_title(title)
    explain(picture, table, experiment, methods, "first pass over the prompts, centred")
    return picture


ENTROPY = Figure(
    "fig_entropy",
    "Entropy of the policy (mean over tokens, in nats) at each training step for policy gradient "
    "(PG) and RSPO; thin: each step, averaged over seeds; thick: its centred moving average; "
    "shaded, with several training seeds: from the lowest to the highest seed.",
    {
        **_LINE,
        "step": "x: training step, from 1",
        "entropy": "thin line: token mean in nats, mean over seeds",
        "smoothed": "thick line: mean entropy over the window around this step",
        **_BAND,
        "window": "steps in that window, fewer at both ends",
        **_SEEDS,
    },
    entropy_table,
    draw_entropy,
    grids=("main",),
    objectives=("policy_gradient", "rspo_pass_at_k"),
    training_logs=True,
)
SAMPLE_EFFICIENCY = Figure(
    "fig_sample_efficiency",
    "Pass@k of the training prompts while RSPO is trained with different numbers n of responses "
    "per prompt, against the training step (left) and against the total number of responses drawn "
    "(right); only the first pass over the prompts is shown, because later steps repeat prompts. "
    "Lines are moving averages over complete windows; shaded, with several training seeds: from "
    "the lowest to the highest seed. If the learning rate falls with the step, then at the same "
    "number of responses a smaller n is closer to the end of its schedule.",
    {
        **_LINE,
        "step": "x on the left: training step; steps of the first pass with a complete window",
        "responses": "x on the right: drawn up to the end of the step",
        "metric_k": "k of Pass@k",
        "estimate": "Pass@k of the step's prompts, in %, mean over seeds",
        "smoothed": "y: centred moving average of the estimate",
        **_BAND,
        "window": "steps in the moving average",
        **_SEEDS,
    },
    efficiency_table,
    draw_efficiency,
    grids=("scalability",),
    training_logs=True,
    training_set=True,
)
