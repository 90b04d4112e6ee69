"""Pass@k or Max@k against k, and minus policy gradient's (the paper's figures 6 and 8 to 12).

With several seeds a figure shows the mean of their estimates. Its table also has the mean of the
ends of their intervals. All seeds answer the same problems, so errors from the choice of problems
do not average out over seeds; the mean of the intervals is at least as wide as the interval of the
mean. These intervals do not include the spread between seeds; those of differences do.
"""

import math
import textwrap
from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from rspo.analysis.comparisons import Comparison, Method, difference
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED, GridEntry
from rspo.core.tables import CURVES, read_frame
from rspo.figures import style
from rspo.figures.figure import Figure, Metric, interval_over, run_description
from rspo.figures.style import Axes, Picture

PANELS_PER_ROW = 6
HEIGHT = 3.1  # inches, of a row of levels and the row of differences below it


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
    measurer = Measurer(experiment)
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
    """Levels in the first row of panels, as in the paper; below each one, its differences."""
    suite = experiment.config.data.suites[figure.suite(experiment)]
    titles = {name: benchmark.label for name, benchmark in suite.items()}
    if len(titles) == 1:
        picture = style.new_picture(style.TEXT_WIDTH, 3.2)
        pairs = [tuple(picture.subplots(1, 2))]
    else:
        titles[POOLED] = "all pooled"
        blocks = math.ceil(len(titles) / PANELS_PER_ROW)
        columns = math.ceil(len(titles) / blocks)
        picture = style.new_picture(style.TEXT_WIDTH, 0.9 + HEIGHT * blocks)
        grid = picture.subplots(2 * blocks, columns, squeeze=False)
        pairs = [pair for row in range(blocks) for pair in zip(*grid[2 * row :][:2], strict=True)]
    methods = figure.methods(experiment)
    for pair, (name, title) in zip(pairs, titles.items(), strict=False):
        rows = table[table["benchmark"] == name]
        _draw_pair(pair, rows, methods, figure, _title(title, len(titles), rows))
    for pair in pairs[len(titles) :]:
        for axes in pair:
            axes.remove()
    style.legend_of(picture, methods)
    samples = " or ".join(str(samples) for samples in sorted(set(table["samples"])))
    style.note(
        picture,
        f"{run_description(experiment, methods)}, {samples} samples per problem",
        f"bands: 95 % intervals of the difference, paired, over {interval_over(table)}",
    )
    return picture


def _title(title: str, panels: int, rows: pd.DataFrame) -> str:
    """The name of a panel, on several lines if it is long, and the number of problems."""
    letters = int(style.TEXT_WIDTH * 72 / panels / 6)
    name, bracket, more = title.partition(" (")
    lines = [name, f"({more}"] if bracket and len(title) > letters else [title]
    wrapped = [textwrap.fill(line, letters) for line in lines]
    return "\n".join([*wrapped, f"{rows['problems'].iloc[0]} problems"])


def _draw_pair(
    pair: Sequence[Axes],
    rows: pd.DataFrame,
    methods: Sequence[Method],
    figure: Figure,
    title: str,
) -> None:
    """Levels, and differences to the reference with their intervals."""
    levels, differences = pair
    looks = style.looks(methods)
    style.draw(levels, rows, looks, "k", "estimate")
    ends = ("difference_low", "difference_high")
    style.draw(differences, rows, looks, "k", "difference", ends=ends)
    name, unit, points = "Pass@k", "Pass@k (%)", "points"
    if figure.metric == "max_at_k":
        name, unit, points = "Max@k", "mean best reward", "reward"
    first, *others = dict.fromkeys(rows["reference"])
    reference = f"{first} of the same model" if others else first
    levels.set(ylabel=unit, title=title)
    differences.set(ylabel=f"minus {reference} ({points})", xlabel=f"k of {name}")
    for axes in pair:
        style.make_log2(axes, rows["k"])
        place = axes.get_subplotspec()
        if place and not place.is_first_col():
            axes.set_ylabel("")


_PANELS = (
    "first row: each benchmark, and all problems pooled; second row: the difference to policy "
    "gradient, or to the base model where policy gradient is not shown. Bands are 95 % intervals "
    "of the difference, paired over problems and, with several training seeds, over seeds; they "
    "are not adjusted for the number of comparisons."
)


def _figure(name: str, shows: str, *grids: str, metric: Metric = "pass_at_k") -> Figure:
    caption = f"{shows}; {_PANELS}"
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
