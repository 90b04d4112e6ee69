"""Pass@k or Max@k against k, and its difference to policy gradient (figures 6 and 8 to 12).

The numbers are those of the paper's figures. With several seeds, a figure shows the mean of their
estimates. Its table also has the mean of the ends of their intervals. All seeds answer the same
problems, so errors from the choice of problems do not average out over seeds. The mean of the
intervals is at least as wide as the interval of the mean. These intervals do not include the spread
between seeds; those of differences do.
"""

import math
import textwrap
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pandas as pd

from rspo.analysis.comparisons import Comparison, Method, difference
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED, GridEntry
from rspo.core.tables import CURVES, read_frame
from rspo.figures import style
from rspo.figures.figure import Figure, Metric
from rspo.figures.methods import interval_over, run_description
from rspo.figures.style import Axes, Picture

PANELS_PER_ROW = 6
ROW_HEIGHT = 3.1  # inches, of a row of levels and the row of differences below it
POINT_COLUMNS = ["benchmark", "method", "k"]  # the columns that identify a point


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each point of each line."""
    suite = figure.suite(experiment)
    methods = figure.methods(experiment)
    means = _means_over_seeds(experiment, figure, methods)
    if figure.metric == "pass_at_k":  # in percent; Max@k is in units of reward
        means[["estimate", "low", "high", "lowest", "highest", "error_seeds"]] *= 100
    result = means.merge(_differences(experiment, figure, methods), on=POINT_COLUMNS)
    panels = list(experiment.benchmarks_of(suite))
    panels.append(POOLED)
    result["method"] = pd.Categorical(result["method"], [method.label for method in methods])
    result["benchmark"] = pd.Categorical(result["benchmark"], panels)
    return result.sort_values(POINT_COLUMNS, ignore_index=True)


def _means_over_seeds(
    experiment: Experiment, figure: Figure, methods: Sequence[Method]
) -> pd.DataFrame:
    """The curves of each line, averaged over its seeds; a row for each point."""
    suite = figure.suite(experiment)
    frames = []
    for method in methods:
        for policy in method.policies:
            rows = read_frame(experiment.files.curves(policy, suite), CURVES)
            rows = rows[rows["metric"] == figure.metric]
            rows = rows.assign(method=method.label, objective=method.objective)
            frames.append(rows.assign(trained_k=method.k, n=method.n))
    curves = pd.concat(frames).astype({"trained_k": "Int64", "n": "Int64"})
    by = ["benchmark", "method", "objective", "trained_k", "n", "k"]
    return curves.groupby(by, as_index=False, dropna=False).agg(
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


def _differences(experiment: Experiment, figure: Figure, methods: Sequence[Method]) -> pd.DataFrame:
    """Each line minus its reference, from the scores; a row for each point."""
    suite = figure.suite(experiment)
    benchmarks = tuple(experiment.benchmarks_of(suite))
    # The benchmarks of each panel.
    panels = {benchmark: (benchmark,) for benchmark in benchmarks} | {POOLED: benchmarks}
    measurer = Measurer(experiment)
    unit = 100 if figure.metric == "pass_at_k" else 1
    rows = []
    for method in methods:
        reference = _reference(experiment, method, methods)
        for panel, where in panels.items():
            for k in experiment.config.evaluation.k:
                row: dict[str, Any] = {"method": method.label, "benchmark": panel, "k": k}
                row |= {"reference": reference.label, "difference": 0.0}
                row |= {"difference_low": 0.0, "difference_high": 0.0}
                if method != reference:  # the line of a reference is at 0
                    terms = tuple(difference(method, reference, (k,)))
                    comparison = Comparison("", "", figure.metric, terms, panel, where)
                    measured = measurer.measure(comparison)
                    row["difference"] = unit * measured["estimate"]
                    row["difference_low"] = unit * measured["low"]
                    row["difference_high"] = unit * measured["high"]
                rows.append(row)
    return pd.DataFrame(rows)


def _reference(experiment: Experiment, method: Method, methods: Sequence[Method]) -> Method:
    """The line that is subtracted from a method's.

    It is the only line of policy gradient with the same model. If there is none, or several, it is
    the base policy.
    """
    model = experiment.model_of(method.policies[0])
    same_model = [line for line in methods if experiment.model_of(line.policies[0]) == model]
    risk_neutral = [line for line in same_model if line.objective == "policy_gradient"]
    return risk_neutral[0] if len(risk_neutral) == 1 else same_model[-1]  # bases are last


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    """Levels in the first row of panels, as in the paper; below each one, its differences."""
    suite = experiment.config.data.suites[figure.suite(experiment)]
    titles = {name: benchmark.label for name, benchmark in suite.items()}
    if len(titles) == 1:
        picture = style.new_picture(style.TEXT_WIDTH, 3.2)
        pairs = [tuple(picture.subplots(1, 2))]
    else:
        titles[POOLED] = "all pooled"
        # A block is two rows of panels: the levels, and below them the differences. Benchmarks that
        # do not fit beside each other go to further blocks.
        blocks = math.ceil(len(titles) / PANELS_PER_ROW)
        columns = math.ceil(len(titles) / blocks)
        picture = style.new_picture(style.TEXT_WIDTH, 0.9 + ROW_HEIGHT * blocks)
        grid = picture.subplots(2 * blocks, columns, squeeze=False)
        pairs = []
        for block in range(blocks):
            pairs += zip(grid[2 * block], grid[2 * block + 1], strict=True)
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
    points = style.TEXT_WIDTH * 72 / panels  # width of a panel
    letters = int(points / 6)  # a letter of a title takes less than 6 points
    # A long title with a part in brackets breaks before the bracket first.
    name, bracket, more = title.partition(" (")
    parts = [name, f"({more}"] if bracket and len(title) > letters else [title]
    lines = [textwrap.fill(part, letters) for part in parts]
    lines.append(f"{rows['problems'].iloc[0]} problems")
    return "\n".join(lines)


def _draw_pair(
    pair: Sequence[Axes],
    rows: pd.DataFrame,
    methods: Sequence[Method],
    figure: Figure,
    title: str,
) -> None:
    """Draw levels in the first panel, and differences to the reference with bands in the second."""
    levels, differences = pair
    looks = style.looks(methods)
    style.draw(levels, rows, looks, "k", "estimate")
    ends = ("difference_low", "difference_high")
    style.draw(differences, rows, looks, "k", "difference", ends=ends)
    first, *others = dict.fromkeys(rows["reference"])
    reference = f"{first} of the same model" if others else first
    levels.set(title=title)
    if figure.metric == "max_at_k":
        levels.set_ylabel("mean best reward")
        differences.set(ylabel=f"minus {reference} (reward)", xlabel="k of Max@k")
    else:
        levels.set_ylabel("Pass@k (%)")
        differences.set(ylabel=f"minus {reference} (points)", xlabel="k of Pass@k")
    for axes in pair:
        style.make_log2(axes, rows["k"])
    _remove_repeated_labels(pair)


def _remove_repeated_labels(pair: Sequence[Axes]) -> None:
    """Keep the labels of the y axes of the first column only, and those of both panels of a row."""
    places = [axes.get_subplotspec() for axes in pair]
    levels, differences = pair
    if places[0] and places[1] and places[0].rowspan == places[1].rowspan:
        levels.set_xlabel(differences.get_xlabel())
        return
    for axes, place in zip(pair, places, strict=True):
        if place and not place.is_first_col():
            axes.set_ylabel("")


_PANELS = (
    "first row: each benchmark, and all problems pooled; second row: the difference to policy "
    "gradient, or to the base model where policy gradient is not shown. Bands are 95 % intervals "
    "of the difference, paired over problems and, with several training seeds, over seeds; they "
    "are not adjusted for the number of comparisons."
)


def _figure(name: str, shows: str, *grids: str, metric: Metric = "pass_at_k") -> Figure:
    """A figure of some grid entries in the same panels; `shows` begins its caption."""
    caption = f"{shows}; {_PANELS}"
    inputs = ("curves", "scores")
    return Figure(name, caption, table, draw, grids, inputs, metric=metric)


def figure_of_grid_entry(grid: str, entry: GridEntry) -> Figure:
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
SCALABILITY = _figure(
    "fig_scalability",
    "Pass@k of RSPO at fixed k trained with different numbers n of responses per prompt",
    "scalability",
)
MODEL_SIZE = _figure(
    "fig_model_size",
    "The comparison of fig_main with the second, larger model",
    "model_size",
)
CONTAMINATION_FREE = _figure(
    "fig_contamination_free",
    "The policies of fig_main on the suite contamination_free",
    "contamination_free",
)
MAX_AT_K = _figure(
    "fig_max_at_k",
    "Max@k, the expected best reward of k responses, of policies trained with the "
    "length-discounted reward",
    "max_at_k",
    metric="max_at_k",
)
GRPO = _figure("fig_grpo", "The comparison of fig_main with GRPO added", "main", "grpo")
