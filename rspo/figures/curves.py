"""Pass@k or Max@k against k, a panel for each benchmark (the paper's figures 6 and 8 to 12).

One estimate of a seed is the unbiased one of `rspo.evaluation`, averaged over problems. Several
seeds are averaged, and so are the ends of their intervals: seeds answer the same problems, so the
errors that come from the choice of problems do not average out between seeds, and the mean of the
intervals is at least as wide as the interval of the mean (the standard deviation of a mean is at
most the mean of the standard deviations). The spread between seeds is not in the band; a whisker
from the lowest to the highest seed shows it.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.config.experiment import BASE, Experiment
from rspo.config.schema import POOLED
from rspo.core.errors import InputError
from rspo.core.tables import CURVES, read_table
from rspo.figures import Figure, style
from rspo.figures.drawing import Row
from rspo.figures.inputs import require_files
from rspo.figures.methods import Method, face, methods_of

COLUMNS = {
    "benchmark": "panel; pooled: every problem of all benchmarks",
    "method": "line, as the legend names it",
    "objective": "that the policy was trained with; base: not trained",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training; empty for the base policy",
    "k": "x: of Pass@k or Max@k",
    "estimate": "y: Pass@k in %, or Max@k in units of reward; mean over seeds",
    "low": "lower end of the band, mean over seeds of the 95 % intervals over resampled problems",
    "high": "upper end of the band",
    "lowest": "lower end of the whisker: the estimate of the lowest seed",
    "highest": "upper end of the whisker: the estimate of the highest seed",
    "seeds": "training seeds averaged",
    "problems": "in the benchmark",
    "samples": "per problem",
}

PANELS_A_ROW = 3

_Point = tuple[str, int]  # benchmark, k


def numbers(experiment: Experiment, figure: Figure) -> list[Row]:
    """One row for each point of each line.

    Raises: InputError for curves that are missing or lack a point.
    """
    require_files(experiment, figure)
    suite = figure.suite(experiment)
    panels = [*experiment.benchmarks_of(suite), POOLED]
    points = [(panel, k) for panel in panels for k in sorted(experiment.config.evaluation.k)]
    rows = []
    for method in methods_of(experiment, figure):
        curves = [_curve(experiment, figure, policy, points) for policy in method.policies]
        rows += [
            _row(figure, method, point, [curve[point] for curve in curves]) for point in points
        ]
    return sorted(rows, key=lambda row: panels.index(str(row["benchmark"])))


def _curve(
    experiment: Experiment, figure: Figure, policy: str, points: list[_Point]
) -> dict[_Point, dict[str, Any]]:
    """The rows of one policy's table that the figure shows."""
    path = experiment.curves(policy, figure.suite(experiment))
    found = {
        (row["benchmark"], row["k"]): row
        for row in read_table(path, CURVES)
        if row["metric"] == figure.metric and row["cell"] == policy
    }
    for benchmark, k in points:
        if (benchmark, k) not in found:
            raise InputError(
                f"{path}: has no {figure.metric} of {policy} on {benchmark} at k = {k}; remake it"
            )
        values = [found[benchmark, k][key] for key in ("estimate", "low", "high")]
        if not all(value is not None and math.isfinite(value) for value in values):
            raise InputError(
                f"{path}: {figure.metric} on {benchmark} at k = {k} has estimate, low, high = "
                f"{values}; all must be finite"
            )
    return found


def _row(figure: Figure, method: Method, point: _Point, seeds: list[dict[str, Any]]) -> Row:
    benchmark, k = point
    unit = 100 if figure.metric == "pass_at_k" else 1
    return {
        "benchmark": benchmark,
        "method": method.label,
        "objective": method.objective,
        "trained_k": "" if method.k is None else method.k,
        "n": "" if method.n is None else method.n,
        "k": k,
        **{key: unit * fmean(s[key] for s in seeds) for key in ("estimate", "low", "high")},
        "lowest": unit * min(s["estimate"] for s in seeds),
        "highest": unit * max(s["estimate"] for s in seeds),
        "seeds": len(seeds),
        "problems": seeds[0]["problems"],
        "samples": seeds[0]["samples"],
    }


def picture(rows: Sequence[Row], experiment: Experiment, figure: Figure) -> Picture:
    methods = methods_of(experiment, figure)
    labels = _panel_labels(experiment, figure)
    height = -(-len(labels) // PANELS_A_ROW)
    result = style.new_picture(style.TEXT_WIDTH, 0.75 + 1.75 * height)
    grid = result.subplots(height, PANELS_A_ROW, squeeze=False).flat
    for axes, (benchmark, label) in zip(grid, labels.items(), strict=False):
        panel = [row for row in rows if row["benchmark"] == benchmark]
        axes.set_title(label, loc="left")
        axes.set_title(f"{panel[0]['problems']} problems", loc="right", color=style.FAINT, size=7)
        _draw_panel(axes, panel, methods)
    for axes in list(grid):
        axes.set_axis_off()  # those beyond the last panel
    _label_axes(result, figure)
    style.legend(result, methods)
    samples = sorted({int(row["samples"]) for row in rows})
    several = any(row["seeds"] != 1 for row in rows)
    over_seeds = ", mean over seeds; whiskers: lowest to highest seed" if several else ""
    style.note(
        result,
        f"{face(experiment, figure, methods)}, {' or '.join(map(str, samples))} samples a problem",
        f"bands: 95 % over resampled problems{over_seeds}",
    )
    return result


def _panel_labels(experiment: Experiment, figure: Figure) -> dict[str, str]:
    suite = experiment.config.data.suites[figure.suite(experiment)]
    return {name: benchmark.label for name, benchmark in suite.items()} | {POOLED: "pooled"}


def _draw_panel(axes: Axes, rows: Sequence[Row], methods: Sequence[Method]) -> None:
    for height, method in enumerate(sorted(methods, key=_layer), start=2):
        points = [row for row in rows if row["method"] == method.label]
        x, y, low, high = ([p[key] for p in points] for key in ("k", "estimate", "low", "high"))
        look = style.line(method)
        style.band(axes, method, x, low, high, alpha=0.07)
        axes.plot(x, y, **look, zorder=height, gid=method.label)
        if any(point["seeds"] != 1 for point in points):
            lowest, highest = ([point[key] for point in points] for key in ("lowest", "highest"))
            axes.vlines(x, lowest, highest, color=look["color"], linewidth=0.8, gid=method.label)
    style.log2_axis(axes, sorted({int(row["k"]) for row in rows}))


def _layer(method: Method) -> int:
    """What lies on top: the references below the families, and a method of its own above both."""
    if method.objective in (BASE, "policy_gradient"):
        return 0
    return 1 if method.family > 1 else 2


def _label_axes(result: Picture, figure: Figure) -> None:
    metric, unit = (
        ("Pass@k", "accuracy (%)")
        if figure.metric == "pass_at_k"
        else ("Max@k", "mean best reward")
    )
    shown = [axes for axes in result.axes if axes.axison]
    for index, axes in enumerate(shown):
        if index % PANELS_A_ROW == 0:
            axes.set_ylabel(unit)
        if index >= len(shown) - PANELS_A_ROW:
            axes.set_xlabel(f"k of {metric}")
