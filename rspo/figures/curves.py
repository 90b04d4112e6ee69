"""Pass@k or Max@k against k, and minus policy gradient's (the paper's figures 6 and 8 to 12).

With several seeds a figure shows the mean of their estimates and of the ends of their intervals.
All seeds answer the same problems, so errors from the choice of problems do not average out over
seeds; the mean of the intervals is at least as wide as the interval of the mean. The band does not
include the spread between seeds; a whisker from the lowest to the highest seed shows it.
"""

from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from rspo.analysis.comparisons import Comparison, Method, difference
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED, GridEntry
from rspo.core.tables import CURVES, read_frame
from rspo.figures import style
from rspo.figures.figure import Figure, Metric, run_description
from rspo.figures.style import Axes, Picture

PANELS_PER_ROW = 3


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each point of each line."""
    suite = figure.suite(experiment)
    panels = [*experiment.benchmarks_of(suite), POOLED]
    methods = figure.methods(experiment)
    frames = []
    for method in methods:
        named = {"method": method.label, "objective": method.objective}
        trained = {"trained_k": method.k, "n": method.n}
        for policy in method.policies:
            rows = read_frame(experiment.curves(policy, suite), CURVES)
            rows = rows[rows["metric"] == figure.metric]
            frames.append(rows.assign(**named, **trained))
    curves = pd.concat(frames).astype({"trained_k": "Int64", "n": "Int64"})
    points, trained_with = ["benchmark", "method", "k"], ["objective", "trained_k", "n"]
    by = [*points[:2], *trained_with, "k"]
    means = curves.groupby(by, as_index=False, dropna=False).agg(
        estimate=("estimate", fmean),
        low=("low", fmean),
        high=("high", fmean),
        lowest=("estimate", "min"),
        highest=("estimate", "max"),
        error_seeds=("estimate", "sem"),
        seeds=("estimate", "size"),
        problems=("problems", "first"),
        samples=("samples", "first"),
    )
    if figure.metric == "pass_at_k":
        means[["estimate", "low", "high", "lowest", "highest", "error_seeds"]] *= 100
    result = means.merge(_differences(experiment, figure, methods), on=points)
    for column, order in (("method", [m.label for m in methods]), ("benchmark", panels)):
        result[column] = pd.Categorical(result[column], order)
    return result.sort_values(points, ignore_index=True)


def _differences(experiment: Experiment, figure: Figure, methods: Sequence[Method]) -> pd.DataFrame:
    """Each line minus its reference, from the scores; a row for each point."""
    suite = figure.suite(experiment)
    benchmarks = experiment.benchmarks_of(suite)
    measurer = Measurer(experiment, [(name, suite) for name in figure.policies(experiment)])
    unit = 100 if figure.metric == "pass_at_k" else 1
    rows = []
    for method in methods:
        reference = _reference(experiment, method, methods)
        for panel in (*benchmarks, POOLED):
            where = tuple(benchmarks) if panel == POOLED else (panel,)
            for k in experiment.config.evaluation.k:
                values: tuple[float, ...] = (0.0, 0.0, 0.0)
                if method != reference:
                    terms = tuple(difference(method, reference, (k,)))
                    found = measurer.of(Comparison("", "", figure.metric, terms, panel, where))
                    values = tuple(unit * found[key] for key in ("estimate", "low", "high"))
                rows.append((method.label, panel, k, reference.label, *values))
    numbers = ["difference", "difference_low", "difference_high"]
    return pd.DataFrame(rows, columns=["method", "benchmark", "k", "reference", *numbers])


def _reference(experiment: Experiment, method: Method, methods: Sequence[Method]) -> Method:
    """The only line of policy gradient with the method's model, or else the base policy."""
    model = experiment.model_of(method.policies[0])
    same = [one for one in methods if experiment.model_of(one.policies[0]) == model]
    neutral = [one for one in same if one.objective == "policy_gradient"]
    return neutral[0] if len(neutral) == 1 else same[-1]


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    """The pooled problems above, in levels and differences; below, each benchmark's differences."""
    suite = experiment.config.data.suites[figure.suite(experiment)]
    rows = -(-len(suite) // PANELS_PER_ROW)
    picture = style.new_picture(style.TEXT_WIDTH, 3.3 + 1.7 * rows)
    # Six columns are two panels above and three below.
    grid = picture.add_gridspec(1 + rows, 6, height_ratios=[2.1, *[1.4] * rows])
    above = [picture.add_subplot(grid[0, :3]), picture.add_subplot(grid[0, 3:])]
    pooled = table[table["benchmark"] == POOLED]
    for axes, y in zip(above, ("estimate", "difference"), strict=True):
        _draw_panel(axes, pooled, experiment, figure, "all benchmarks pooled", y)
    for place, (name, benchmark) in enumerate(suite.items()):
        row, column = divmod(place, PANELS_PER_ROW)
        axes = picture.add_subplot(grid[1 + row, 2 * column : 2 * column + 2])
        _draw_panel(axes, table[table["benchmark"] == name], experiment, figure, benchmark.label)
        axes.set_ylabel(above[1].get_ylabel() if column == 0 else "")
        if place + PANELS_PER_ROW < len(suite):
            axes.set_xlabel("")
    methods = figure.methods(experiment)
    style.legend(picture, methods)
    several = table["seeds"].max() > 1
    samples = " or ".join(str(samples) for samples in sorted(set(table["samples"])))
    style.note(
        picture,
        f"{run_description(experiment, methods)}, {samples} samples per problem",
        "bands: 95 % over problems; differences: paired, and over seeds"
        + ("; whiskers: lowest to highest seed" if several else ""),
    )
    return picture


def _draw_panel(
    axes: Axes,
    rows: pd.DataFrame,
    experiment: Experiment,
    figure: Figure,
    title: str,
    y: str = "difference",
) -> None:
    methods = figure.methods(experiment)
    levels = y == "estimate"
    ends = ("low", "high") if levels else ("difference_low", "difference_high")
    style.draw_intervals(axes, rows, methods, "k", ends, alpha=0.1)
    if levels and rows["seeds"].max() > 1:
        style.draw_intervals(axes, rows, methods, "k", ("lowest", "highest"), alpha=None)
    style.draw_lines(axes, rows, methods, "k", y)
    style.make_log2(axes, rows["k"])
    name, unit, points = "Pass@k", "Pass@k (%)", "points"
    if figure.metric == "max_at_k":
        name, unit, points = "Max@k", "mean best reward", "reward"
    first, *others = dict.fromkeys(rows["reference"])
    reference = f"{first} of the same model" if others else first
    axes.set(xlabel=f"k of {name}", ylabel=unit if levels else f"minus {reference} ({points})")
    axes.set_title(f"{title}\n{rows['problems'].iloc[0]} problems")


_BANDS = (
    "above: all problems pooled; the other panels: the difference to policy gradient, or to the "
    "base model where policy gradient is not shown. Bands are 95 % intervals: of Pass@k or Max@k "
    "over resampled problems, averaged over seeds; of a difference paired over problems and, with "
    "several training seeds, over seeds, not adjusted for the number of comparisons."
)


def _figure(name: str, shows: str, *grids: str, metric: Metric = "pass_at_k") -> Figure:
    caption = f"{shows}; {_BANDS}"
    inputs = ("curves", "scores")
    return Figure(name, caption, table, draw, grids, inputs, metric=metric)


def of_grid_entry(grid: str, entry: GridEntry) -> Figure:
    """The figure of a grid entry that no other figure draws."""
    binary = any(spec.reward == "binary" for spec in entry.cells)
    metric: Metric = "pass_at_k" if binary else "max_at_k"
    value = "Pass@k" if binary else "Max@k, the expected best reward of k responses,"
    return _figure(f"fig_{grid}", f"{value} of the policies in grid.{grid}", grid, metric=metric)


MAIN = _figure(
    "fig_main",
    "Pass@k of policy gradient (PG), RSPO, the hitchhiking baseline and the base model "
    "on each benchmark and on all problems pooled",
    "main",
)
OTHERS = (
    _figure(
        "fig_scalability",
        "Pass@k of RSPO at fixed k trained with different numbers n of responses per prompt",
        "scalability",
    ),
    _figure(
        "fig_model_size",
        "The comparison of fig_main with the second, larger model",
        "model_size",
    ),
    _figure(
        "fig_contamination_free",
        "The policies of fig_main on the suite contamination_free",
        "contamination_free",
    ),
    _figure(
        "fig_max_at_k",
        "Max@k, the expected best reward of k responses, of policies trained with the "
        "length-discounted reward",
        "max_at_k",
        metric="max_at_k",
    ),
    _figure("fig_grpo", "The comparison of fig_main with GRPO added", "main", "grpo"),
)
