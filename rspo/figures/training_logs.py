"""What figures read from training.jsonl: one number a step, smoothed for the eye."""

import math
from collections.abc import Sequence
from statistics import fmean

from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.figures.inputs import command
from rspo.files import read_json_lines


def logged(experiment: Experiment, cell: str, key: str) -> list[float]:
    """What a cell's log says of `key` at step 1, 2, ... to the end of its training.

    Raises: InputError for a log that lacks a step, or in which the number is missing or not finite.
    """
    path = experiment.training_log(cell)
    log = read_json_lines(path)
    steps = experiment.config.training.steps
    found = [row.get("step") for row in log]
    if found != list(range(1, steps + 1)):
        raise InputError(
            f"{path}: has {len(found)} rows, expected one for each step 1 to {steps} in order; "
            f"finish or remake it with `{command(experiment, path)}`"
        )
    for row in log:
        value = row.get(key)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(
                f"{path}, line {row['step']}: {key} is {value!r}, expected a finite number"
            )
    return [float(row[key]) for row in log]


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average: the mean of the steps at most `half` away, of fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
