"""Samples per prompt against samples in total: RSPO trained with n responses per prompt.

With the same number of steps, a larger n draws more responses in total. The left panel shows
Pass@k of the training prompts against the step, which fixes the number of prompts; the right panel
shows the same numbers against the responses drawn so far. Pass@k is the trainer's unbiased estimate
from the responses of each step, for the largest k that all lines have. Each step uses other
prompts, so the lines are smoothed.

Only the first pass over the training set is drawn. In later passes the policy was trained on the
prompts before, so Pass@k jumps when a pass starts. On the right this jump would be at another
number of responses for each n, and would look like an effect of the responses.
"""

from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import face, methods_of
from rspo.figures.training_logs import averaged, first_pass

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

CAPTION = (
    "Pass@k of the training prompts while RSPO is trained with different numbers n of responses "
    "per prompt, against the training step (left) and against the total number of responses drawn "
    "(right); only the first pass over the prompts is shown, because later steps repeat prompts. "
    "Lines are moving averages over complete windows; shaded, with several training seeds: from "
    "the lowest to the highest seed. If the learning rate falls with the step, then at the same "
    "number of responses a smaller n is closer to the end of its schedule."
)
COLUMNS = {
    "method": "line, as in the legend",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "x on the left: training step; steps of the first pass with a complete window",
    "responses": "x on the right: drawn up to the end of the step",
    "metric_k": "k of Pass@k",
    "estimate": "Pass@k of the step's prompts, in %, mean over seeds",
    "smoothed": "y: centred moving average of the estimate",
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines",
    "highest": "upper end of the band",
    "window": "steps in the moving average",
    "seeds": "training seeds averaged",
}


def half_window(steps: int) -> int:
    """Steps on either side in the moving average: a tenth of the drawn steps."""
    return steps // 10


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each step of each line.

    Raises: InputError for training logs that are missing or incomplete.
    """
    import pandas as pd

    methods = methods_of(experiment, figure)
    # The logs have Pass@k for the powers of two up to n.
    k = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    steps = first_pass(experiment)
    half = half_window(steps)
    lines = [averaged(experiment, m, f"pass_at_{k}", half, steps, unit=100) for m in methods]
    complete = pd.concat([line.iloc[half : steps - half] for line in lines], ignore_index=True)
    prompts = complete["step"] * experiment.config.training.prompts_per_step
    result = complete.rename(columns={"value": "estimate"})
    return result.assign(responses=prompts * complete["n"], metric_k=k)[list(COLUMNS)]


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    methods = methods_of(experiment, figure)
    several = table["seeds"].max() > 1
    picture = style.new_picture(style.TEXT_WIDTH, 2.6)
    plot = style.plot(table, picture, y="smoothed").pair(x=["step", "responses"])
    if several:
        plot = style.add_intervals(plot, table, methods, "lowest", "highest")
    plot = style.add_lines(plot, table, methods, every=max(1, table["step"].nunique() // 6))
    plot.scale(x1=style.log10(table["responses"])).label(
        x0="training step",
        x1="total number of responses",
        y=f"Pass@{table['metric_k'].iloc[0]} of training prompts (%)",
    ).plot()
    for axes, title in zip(picture.axes, ("same prompts", "same responses"), strict=True):
        axes.set_title(title)
    style.legend(picture, methods)
    style.note(
        picture,
        f"{face(experiment, figure, methods)}, "
        f"{experiment.config.training.prompts_per_step} prompts per step",
        f"first pass over the prompts, centred mean of {table['window'].iloc[0]} steps",
        *(["shaded: lowest to highest seed"] if several else []),
    )
    return picture


FIGURE = Figure(
    "fig_sample_efficiency",
    CAPTION,
    COLUMNS,
    table,
    draw,
    grids=("scalability",),
    training_logs=True,
    training_set=True,
)
