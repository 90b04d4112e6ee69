"""Functions of the figures of training logs: read logged values, smooth and average them."""

from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.config.experiment import Experiment
from rspo.figures import style
from rspo.figures.methods import run_description
from rspo.figures.style import Picture
from rspo.training.logs import column, read_log


def logged(experiment: Experiment, method: Method, key: str) -> pd.DataFrame:
    """The values of `key` in a method's logs, [steps, seeds]."""
    columns = {}
    for cell in method.policies:
        columns[cell] = column(experiment.files.training_log(cell), read_log(experiment, cell), key)
    return pd.DataFrame(columns)


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average over up to `half` steps on either side, fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def averaged(method: Method, values: pd.DataFrame, half: int) -> pd.DataFrame:
    """Mean over seeds, smoothed, and the range of the seeds' own lines; a row for each step.

    Args:
        values: [steps, seeds].
        half: number of steps on either side that are averaged.
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


def explain(
    picture: Picture,
    table: pd.DataFrame,
    experiment: Experiment,
    methods: Sequence[Method],
    lines: str,
    one_seed: str,
) -> None:
    """Add the legend, and a note on the lines.

    Args:
        lines: what the lines are, up to "mean of ... steps".
        one_seed: what is shaded with one seed; empty if nothing is.
    """
    style.legend_of(picture, methods)
    prompts = experiment.config.training.prompts_per_step
    notes = [
        f"{run_description(experiment, methods)}, {prompts} prompts per step",
        f"{lines} mean of {table['window'].iloc[0]} steps",
    ]
    if table["seeds"].max() > 1:
        notes.append("shaded: lowest to highest seed")
    elif one_seed:
        notes.append(one_seed)
    style.note(picture, *notes)
