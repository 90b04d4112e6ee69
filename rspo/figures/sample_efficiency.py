"""Samples per prompt against samples in total: RSPO trained with n responses per prompt.

With the same steps, a larger n means more responses in all. Left, Pass@k of the training prompts
against the step, where prompts are what counts; right, the same numbers against the responses drawn
so far, where responses are. Pass@k is the trainer's unbiased estimate from each step's responses,
for the largest k that every line can have; each step's prompts are others, hence the smoothing.

Only the first pass over the training set is drawn. Later steps ask prompts that the policy was
trained on before, and their Pass@k jumps where they start: on the right at another place for each
n, which would read as an effect of the responses.
"""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure as Picture

from rspo.config.experiment import Experiment
from rspo.figures import Figure, style
from rspo.figures.drawing import Row
from rspo.figures.inputs import require_files
from rspo.figures.methods import face, methods_of
from rspo.figures.training_logs import first_pass, logged, smoothed

COLUMNS = {
    "method": "line, as the legend names it",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "x on the left: of training; those of the first pass whose window is whole",
    "responses": "x on the right: drawn up to the end of the step",
    "metric_k": "of Pass@k",
    "estimate": "Pass@k of the step's prompts, in %, mean over seeds",
    "smoothed": "y: centred moving average of the estimate",
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines",
    "highest": "upper end of the band",
    "window": "steps in the moving average",
    "seeds": "training seeds averaged",
}


def half_window(steps: int) -> int:
    """Steps on either side that are averaged: a tenth of those drawn, for some hundred prompts."""
    return steps // 10


def numbers(experiment: Experiment, figure: Figure) -> list[Row]:
    """One row for each step of each line.

    Raises: InputError for training logs that are missing or incomplete.
    """
    require_files(experiment, figure)
    methods = methods_of(experiment, figure)
    # The logs have the powers of two up to n.
    k = 1 << (min(method.n or 1 for method in methods).bit_length() - 1)
    training = experiment.config.training
    steps = first_pass(experiment)
    half = half_window(steps)
    rows: list[Row] = []
    for method in methods:
        seeds = [logged(experiment, cell, f"pass_at_{k}") for cell in method.policies]
        percent = [[100 * value for value in values[:steps]] for values in seeds]
        lines = [smoothed(values, half) for values in percent]
        for index in range(half, steps - half):
            at_step = [line[index] for line in lines]
            rows.append(
                {
                    "method": method.label,
                    "trained_k": "" if method.k is None else method.k,
                    "n": method.n or 1,
                    "step": index + 1,
                    "responses": (index + 1) * training.prompts_per_step * (method.n or 1),
                    "metric_k": k,
                    "estimate": fmean(values[index] for values in percent),
                    "smoothed": fmean(at_step),
                    "lowest": min(at_step),
                    "highest": max(at_step),
                    "window": 2 * half + 1,
                    "seeds": len(seeds),
                }
            )
    return rows


def picture(rows: Sequence[Row], experiment: Experiment, figure: Figure) -> Picture:
    methods = methods_of(experiment, figure)
    result = style.new_picture(style.TEXT_WIDTH, 2.6)
    for axes, x in zip(result.subplots(1, 2, sharey=True), ("step", "responses"), strict=True):
        for method in methods:
            points = [row for row in rows if row["method"] == method.label]
            look = style.line(method)
            places = [row[x] for row in points]
            if any(row["seeds"] != 1 for row in points):
                lowest, highest = ([r[key] for r in points] for key in ("lowest", "highest"))
                style.band(axes, method, places, lowest, highest)
            axes.plot(
                places,
                [row["smoothed"] for row in points],
                **look,
                markevery=(len(points) // 6, max(1, len(points) // 6)),
                gid=method.label,
            )
    left, right = result.axes
    left.set(xlabel="training step", ylabel=f"Pass@{rows[0]['metric_k']} of training prompts (%)")
    left.set_title("the same prompts in all", loc="left")
    style.log10_axis(right, "x")
    right.set(xlabel="responses drawn in total")
    right.set_title("the same responses in all", loc="left")
    style.legend(result, methods)
    shaded = "; shaded: lowest to highest seed" if experiment.config.seeds > 1 else ""
    style.note(
        result,
        f"{face(experiment, figure, methods)}, "
        f"{experiment.config.training.prompts_per_step} prompts a step",
        f"first pass over the prompts, centred mean of {rows[0]['window']} steps{shaded}",
    )
    return result
