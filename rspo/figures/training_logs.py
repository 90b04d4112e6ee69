"""What figures read from training.jsonl: one number a step, smoothed for the eye."""

from collections.abc import Sequence
from statistics import fmean

from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table
from rspo.figures.inputs import command
from rspo.training.logs import column, read_log


def logged(experiment: Experiment, cell: str, key: str) -> list[float]:
    """What a cell's log says of `key` at step 1, 2, ... to the end of its training.

    Raises: InputError for a log that lacks a step, or in which the number is missing or not finite.
    """
    path = experiment.training_log(cell)
    remedy = f"finish or remake it with `{command(experiment, path)}`"
    return column(path, read_log(path, experiment.config.training.steps, remedy), key)


def first_pass(experiment: Experiment) -> int:
    """Steps of training until its prompts come again, and at most all: whole steps of the set.

    Raises: InputError for a training set that is missing or bad.
    """
    training = experiment.config.training
    problems = read_table(experiment.problems("train"), PROBLEMS)
    return min(training.steps, len(problems) // training.prompts_per_step)


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average: the mean of the steps at most `half` away, of fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
