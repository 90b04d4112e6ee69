"""Read the training.jsonl of a finished training, and warn of the faults that it shows."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines

# The largest fraction of updates with a clipped gradient that causes no warning. Above it, most
# gradients were scaled down to one norm, which changes the algorithm.
MOST_CLIPPED = 0.5
# The largest mean absolute difference between the log-probabilities of the sampler and the actor
# that causes no warning, in nats per token. In bfloat16 on a CPU, correct samplers differ by 0.004
# (the tiny models) to 0.01 (SmolLM2-135M).
MOST = 0.05
# In the first step, the sampler and the actor have read the same files, so they differ by rounding
# only. If the weights of the sampler are one step old, the difference is six times as large,
# measured with a tiny cell in bfloat16. The bound on the difference is half of that: three times
# the difference of the first step.
_TIMES_FIRST = 3
_LEAST = 0.001  # the lowest bound in any case, far above the rounding of float32


def read_log(experiment: Experiment, cell: str) -> list[dict[str, Any]]:
    """Read the records of a cell's finished training, one for each step.

    Raises: InputError if the training is not finished.
    """
    path = experiment.files.training_log(cell)
    steps = experiment.for_cell(cell).config.training.last_step
    log = read_json_lines(path)
    if [row.get("step") for row in log] != list(range(1, steps + 1)):
        raise InputError(
            f"{path}: has {len(log)} rows, expected one for each step 1 to {steps} in order; "
            f"`{experiment.command('train', cell)}` finishes it"
        )
    return log


def column(path: Path, log: Sequence[dict[str, Any]], key: str) -> list[float]:
    """The values of `key` in a log, step by step; `path` is for messages.

    Raises: InputError for a value that is not a finite number.
    """
    for row in log:
        value = row.get(key)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(
                f"{path}, line {row['step']}: {key} is {value!r}, expected a finite number"
            )
    return [float(row[key]) for row in log]


def clipping_warning(fractions: Mapping[str, float]) -> str:
    """A sentence that names the cells with more than half of their gradients clipped, or "".

    Args:
        fractions: by cell, the fraction of its updates whose gradient was clipped.
    """
    cells = [f"{cell} ({part:.0%})" for cell, part in fractions.items() if part > MOST_CLIPPED]
    if not cells:
        return ""
    return (
        "training.optimizer.gradient_clip scaled the gradients of more than half of the updates "
        f"down to one norm, which changes the algorithm: {', '.join(cells)}."
    )


def steps_above(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """The steps in which the sampler differs from the actor by more than the bound.

    The bound is _TIMES_FIRST times the first step's difference, but at least _LEAST and at most
    MOST. Steps of the local engine have no difference: its sampler is the actor.
    """
    measured = {
        record["step"]: record["sampler"]["difference"]
        for record in records
        if isinstance(record.get("sampler"), Mapping)
    }
    finite = [difference for difference in measured.values() if math.isfinite(difference)]
    first = finite[0] if finite else MOST
    bound = min(MOST, max(_LEAST, _TIMES_FIRST * first))
    # `not <=` instead of `>`, because NaN, which a broken sampler returns, is to be reported too.
    return [step for step, difference in measured.items() if not difference <= bound]


def sampler_warning(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A sentence that names the cells that have a step above the bound, or "" if no cell has.

    The log-probabilities of a correct sampler and the actor differ by rounding. They differ by more
    if the sampler has older weights, a wrong kernel or a wrong type, which nothing else shows.
    """
    cells = []
    for name, records in logs.items():
        steps = steps_above(records)
        if steps:
            cells.append(f"{name} ({len(steps)} steps, first {steps[0]})")
    if not cells:
        return ""
    return (
        "The log-probabilities of the sampler and the actor differ by more than "
        f"{_TIMES_FIRST} times the first step's difference or {MOST:g}, so the sampler may not "
        f"have the actor's weights: {', '.join(cells)}."
    )
