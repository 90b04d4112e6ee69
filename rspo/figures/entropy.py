"""Entropy of the policy while it is trained (the paper's figure 7, section 5.2).

The entropy of a step is the one the trainer logs: the mean over the tokens of the step's responses
of -sum_t p(t) log p(t), in nats. Seeds are averaged step by step; the band reaches from the lowest
to the highest seed's smoothed line.
"""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure as Picture

from rspo.config.experiment import Experiment
from rspo.figures import Figure, style
from rspo.figures.drawing import Row
from rspo.figures.inputs import require_files
from rspo.figures.methods import face, methods_of
from rspo.figures.training_logs import logged, smoothed

COLUMNS = {
    "method": "line, as the legend names it",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "step": "x: of training, from 1",
    "entropy": "thin line: token mean in nats, mean over seeds",
    "smoothed": "thick line: mean of `entropy` over the steps within the window around this one",
    "lowest": "lower end of the band: the lowest of the seeds' own smoothed lines",
    "highest": "upper end of the band",
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
        seeds = [logged(experiment, policy, "entropy") for policy in method.policies]
        entropy = [fmean(values) for values in zip(*seeds, strict=True)]
        half = half_window(len(entropy))
        lines = [smoothed(values, half) for values in seeds]
        for index, value in enumerate(entropy):
            rows.append(
                {
                    "method": method.label,
                    "trained_k": "" if method.k is None else method.k,
                    "n": "" if method.n is None else method.n,
                    "step": index + 1,
                    "entropy": value,
                    "smoothed": fmean(line[index] for line in lines),
                    "lowest": min(line[index] for line in lines),
                    "highest": max(line[index] for line in lines),
                    "window": 2 * half + 1,
                    "seeds": len(seeds),
                }
            )
    return rows


def picture(rows: Sequence[Row], experiment: Experiment, figure: Figure) -> Picture:
    methods = methods_of(experiment, figure)
    result = style.new_picture(style.COLUMN_WIDTH, 2.6)
    axes = result.subplots()
    for method in methods:
        points = [row for row in rows if row["method"] == method.label]
        steps = [row["step"] for row in points]
        look = style.line(method)
        if any(row["seeds"] != 1 for row in points):
            lowest, highest = ([r[key] for r in points] for key in ("lowest", "highest"))
            style.band(axes, method, steps, lowest, highest)
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
            **look,
            markevery=max(1, len(points) // 6),
            clip_on=False,  # markers at the edge are whole
            gid=f"{method.label}/smoothed",
        )
    axes.set_xlabel("training step")
    axes.set_ylabel("entropy (nats a token)")
    axes.set_xlim(0, len({row["step"] for row in rows}))
    style.legend(result, methods)
    several = any(row["seeds"] != 1 for row in rows)
    style.note(
        result,
        f"{face(experiment, figure, methods)}, "
        f"{experiment.config.training.prompts_per_step} prompts a step",
        f"thin: each step; thick: centred mean of {rows[0]['window']} steps (fewer at the ends)"
        + ("; shaded: lowest to highest seed" if several else ""),
    )
    return result
