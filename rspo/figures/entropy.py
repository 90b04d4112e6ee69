"""Entropy of the policy while it is trained (the paper's figure 7, section 5.2).

The entropy of a step is the one the trainer logs: the mean over the tokens of the step's responses
of -sum_t p(t) log p(t), in nats. Seeds are averaged step by step. The smoothed line is the mean of
the steps at most `half_window` away, of fewer at both ends.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure as Picture

from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.figures import Figure, style
from rspo.figures.drawing import Row
from rspo.figures.inputs import command, require_files
from rspo.figures.methods import face, methods_of
from rspo.files import read_json_lines

COLUMNS = {
    "method": "line, as the legend names it",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "x: of training, from 1",
    "entropy": "thin line: token mean in nats, mean over seeds",
    "smoothed": "thick line: mean of `entropy` over the steps within the window around this one",
    "window": "steps in that window, fewer at both ends",
    "seeds": "training seeds averaged",
}


def half_window(steps: int) -> int:
    """Steps on either side that are averaged: a fortieth of the training, so 5 of 200."""
    return max(1, steps // 40)


def numbers(experiment: Experiment, figure: Figure) -> list[Row]:
    """One row for each step of each line.

    Raises: InputError for training logs that are missing or incomplete.
    """
    require_files(experiment, figure)
    rows: list[Row] = []
    for method in methods_of(experiment, figure):
        seeds = [_entropy(experiment, policy) for policy in method.policies]
        entropy = [fmean(values) for values in zip(*seeds, strict=True)]
        half = half_window(len(entropy))
        for index, value in enumerate(entropy):
            rows.append(
                {
                    "method": method.label,
                    "trained_k": "" if method.k is None else method.k,
                    "n": "" if method.n is None else method.n,
                    "step": index + 1,
                    "entropy": value,
                    "smoothed": fmean(entropy[max(0, index - half) : index + half + 1]),
                    "window": 2 * half + 1,
                    "seeds": len(seeds),
                }
            )
    return rows


def _entropy(experiment: Experiment, cell: str) -> list[float]:
    """A cell's entropy at step 1, 2, ... to the end of its training."""
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
        value = row.get("entropy")
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(
                f"{path}, line {row['step']}: entropy is {value!r}, expected a finite number"
            )
    return [float(row["entropy"]) for row in log]


def picture(rows: Sequence[Row], experiment: Experiment, figure: Figure) -> Picture:
    methods = methods_of(experiment, figure)
    result = style.new_picture(style.COLUMN_WIDTH, 2.6)
    axes = result.subplots()
    for method in methods:
        points = [row for row in rows if row["method"] == method.label]
        steps = [row["step"] for row in points]
        look = style.line(method) | {"marker": "none"}
        axes.plot(
            steps,
            [row["entropy"] for row in points],
            color=look["color"],
            linewidth=0.5,
            alpha=0.45,
            gid=f"{method.label}/entropy",
        )
        # A marker at every sixth of the line tells the lines apart in grey.
        axes.plot(
            steps,
            [row["smoothed"] for row in points],
            **style.line(method),
            markevery=max(1, len(points) // 6),
            clip_on=False,  # markers at the edge are whole
            gid=f"{method.label}/smoothed",
        )
    axes.set_xlabel("training step")
    axes.set_ylabel("entropy (nats a token)")
    axes.set_xlim(0, len({row["step"] for row in rows}))
    style.legend(result, methods)
    style.note(
        result,
        face(experiment, figure, methods),
        f"thin: each step; thick: centred mean of {rows[0]['window']} steps (fewer at the ends)",
    )
    return result
