"""Training curves for figures: one number per step, averaged over seeds and smoothed."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rspo.figures.inputs import command
from rspo.figures.methods import Method
from rspo.training.logs import column, read_log

if TYPE_CHECKING:
    import pandas as pd

    from rspo.config.experiment import Experiment


def averaged(
    experiment: "Experiment", method: Method, key: str, half: int, steps: int, unit: float = 1
) -> "pd.DataFrame":
    """The training curve of a method, one row per step, with the columns

    method, trained_k, n, step;
    value: `unit` times `key` of the training logs, mean over seeds;
    smoothed: mean over seeds of each seed's centred moving average;
    lowest, highest: of the seeds' moving averages;
    window, seeds: steps in the moving average, and seeds averaged.

    Args:
        half: steps on either side in the moving average.
        steps: number of first steps to use.

    Raises: InputError for logs that lack a step, or in which a number is missing or not finite.
    """
    import pandas as pd

    logs = {cell: logged(experiment, cell, key)[:steps] for cell in method.policies}
    values = unit * pd.DataFrame(logs)
    smooth = values.apply(smoothed, half=half)
    return pd.DataFrame(
        {
            "method": method.label,
            "trained_k": pd.array([method.k] * len(values), "Int64"),
            "n": method.n or 1,
            "step": range(1, len(values) + 1),
            "value": values.agg(fmean, axis="columns"),
            "smoothed": smooth.agg(fmean, axis="columns"),
            "lowest": smooth.min(axis="columns"),
            "highest": smooth.max(axis="columns"),
            "window": 2 * half + 1,
            "seeds": len(logs),
        }
    )


def logged(experiment: "Experiment", cell: str, key: str) -> list[float]:
    """The values of `key` in a cell's training log, step by step.

    Raises: InputError for a log that lacks a step, or in which a value is missing or not finite.
    """
    path = experiment.training_log(cell)
    remedy = f"finish or remake it with `{command(experiment, path)}`"
    return column(path, read_log(path, experiment.config.training.steps, remedy), key)


def first_pass(experiment: "Experiment") -> int:
    """The number of training steps before prompts repeat, at most all steps.

    Raises: InputError for a training set that is missing or invalid.
    """
    from rspo.core.tables import PROBLEMS, read_table  # here, because it imports pyarrow

    training = experiment.config.training
    problems = read_table(experiment.problems("train"), PROBLEMS)
    return min(training.steps, len(problems) // training.prompts_per_step)


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average over up to `half` steps on either side, fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
