"""Gradient variance of every objective, measured on the policy itself, before and after training.

Of each training prompt, `rspo gradients` has |E[g]|^2 and tr Cov[g] of what a trainer adds up for
it (`rspo.evaluation.gradients`, unbiased). Drawn are

    tr Cov[g] as a multiple of RSPO's at the same k     (which only compares what has one aim)
    mean |E[g]|^2 / mean tr Cov[g]                      (signal to noise; a factor of g drops out)

each a ratio of two means over the same prompts. Its standard error is that of the mean of
a_x - ratio * b_x over prompts, divided by the mean of b (the delta method, Cochran 1977, section
2.11), so what makes a prompt noisy for both cancels. Intervals are 1.96 of them to both sides.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import GRADIENTS, read_table
from rspo.figures import Figure, style
from rspo.figures.binary_groups import lines, same_note, shown_as
from rspo.figures.drawing import Row
from rspo.figures.inputs import require_files
from rspo.figures.methods import label_of
from rspo.objectives import OBJECTIVES

COLUMNS = {
    "policy": "column of panels",
    "objective": "as `rspo.objectives` names it",
    "line": "that shows it, as the legend names it",
    "k": "x: of the objective; 1 where it has none",
    "n": "responses of a group",
    "prompts": "measured on",
    "responses": "drawn to each prompt",
    "correct": "share of them",
    "signal": "mean over prompts of |E[g]|^2",
    "variance": "mean over prompts of tr Cov[g]",
    "multiple": "first row: variance over that of rspo_pass_at_k at this k; empty where k is 1",
    "multiple_low": "lower end of its 95 % interval over prompts",
    "multiple_high": "upper end",
    "signal_to_noise": "second row: signal / variance",
    "signal_to_noise_low": "lower end of its 95 % interval over prompts",
    "signal_to_noise_high": "upper end",
}

REFERENCE = "rspo_pass_at_k"
_Table = dict[tuple[str, int], list[dict[str, Any]]]


def numbers(experiment: Experiment, figure: Figure) -> list[Row]:
    """One row for each policy, objective and k.

    Raises: InputError for a table that is missing or lacks an objective.
    """
    require_files(experiment, figure)
    rows = []
    for policy in figure.policies(experiment):
        path = experiment.gradients(policy)
        table: _Table = {}
        for row in read_table(path, GRADIENTS):
            table.setdefault((row["objective"], row["k"]), []).append(row)
        lacking = sorted({*OBJECTIVES} - {objective for objective, _ in table})
        if lacking:
            raise InputError(f"{path}: has nothing of {', '.join(lacking)}; remake it")
        rows += [_row(policy, table, *pair) for pair in table]
    return rows


def _row(policy: str, table: _Table, objective: str, k: int) -> Row:
    found = table[objective, k]
    variance = [row["variance"] for row in found]
    reference = table.get((REFERENCE, k), [])
    multiple: tuple[float | str, ...] = ("", "", "")
    if reference:
        multiple = ratio_of_means(variance, [row["variance"] for row in reference])
    signal_to_noise = ratio_of_means([row["signal"] for row in found], variance)
    ends = ("", "_low", "_high")
    return {
        "policy": policy,
        "objective": objective,
        "line": shown_as(objective),
        "k": k,
        "n": found[0]["n"],
        "prompts": len(found),
        "responses": found[0]["responses"],
        "correct": fmean(row["correct"] for row in found),
        "signal": fmean(row["signal"] for row in found),
        "variance": fmean(variance),
        **{f"multiple{end}": value for end, value in zip(ends, multiple, strict=True)},
        **{f"signal_to_noise{end}": v for end, v in zip(ends, signal_to_noise, strict=True)},
    }


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """mean(above) / mean(below) over the same prompts, with its 95 % interval."""
    ratio = fmean(above) / fmean(below)
    residuals = [a - ratio * b for a, b in zip(above, below, strict=True)]
    error = stdev(residuals) / math.sqrt(len(residuals)) / fmean(below)
    return ratio, ratio - 1.96 * error, ratio + 1.96 * error


def picture(rows: Sequence[Row], experiment: Experiment, figure: Figure) -> Picture:
    policies = figure.policies(experiment)
    result = style.new_picture(style.TEXT_WIDTH, 4.6)
    grid = result.subplots(2, len(policies), sharex=True, sharey="row", squeeze=False)
    for policy, (above, below) in zip(policies, grid.T, strict=True):
        of_policy = [row for row in rows if row["policy"] == policy]
        _draw(above, [row for row in of_policy if row["multiple"] != ""], "multiple")
        _draw(below, of_policy, "signal_to_noise")
        above.set_title(_title(experiment, policy), loc="left")
        style.log2_axis(below, sorted({int(row["k"]) for row in rows}))
        below.set_xlabel("k of the objective")
    style.log10_axis(grid[0][0], "y")
    grid[0][0].set_ylabel("variance / RSPO's")
    grid[1][0].set_ylabel("signal / noise")
    style.legend(result, lines())
    (prompts,), (responses,), (n,) = (
        {int(row[key]) for row in rows} for key in ("prompts", "responses", "n")
    )
    models = dict.fromkeys(experiment.model_of(policy) for policy in policies)
    style.note(
        result,
        f"{experiment.scale} scale, "
        + " and ".join(experiment.config.models[model].label for model in models)
        + f", 1 seed, {prompts} training prompts, {responses} responses each, groups of n = {n}",
        f"whiskers: 95 % over prompts; {same_note()}",
    )
    return result


def _title(experiment: Experiment, policy: str) -> str:
    if policy not in experiment.cells:
        return "before training"
    cell = experiment.cell(policy)
    return f"after training: {label_of(cell.objective, cell.k)}, n={cell.n}, seed {cell.seed}"


def _draw(axes: Axes, rows: Sequence[Row], quantity: str) -> None:
    for height, method in enumerate(lines(), start=2):
        points = [row for row in rows if row["objective"] == method.objective]
        if not points:
            continue
        look, k = style.line(method), [row["k"] for row in points]
        low, high = ([row[f"{quantity}_{end}"] for row in points] for end in ("low", "high"))
        axes.vlines(k, low, high, color=look["color"], linewidth=0.8, gid=method.label)
        axes.plot(k, [row[quantity] for row in points], **look, zorder=height, gid=method.label)
