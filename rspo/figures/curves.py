"""Pass@k or Max@k against k, with one panel per benchmark (the paper's figures 6 and 8 to 12).

The estimate of one seed is the unbiased estimate of `rspo.evaluation`, averaged over problems. With
several seeds the figure shows the mean of their estimates and of the ends of their intervals. All
seeds answer the same problems, so errors from the choice of problems do not average out over seeds;
the mean of the intervals is at least as wide as the interval of the mean, because the standard
deviation of a mean is at most the mean of the standard deviations. The band does not include the
spread between seeds; a whisker from the lowest to the highest seed shows it.
"""

from statistics import fmean
from typing import TYPE_CHECKING

from rspo.config.schema import POOLED
from rspo.core.errors import InputError
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import face, methods_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment
    from rspo.config.schema import GridEntry

COLUMNS = {
    "benchmark": "panel; pooled: every problem of all benchmarks",
    "method": "line, as in the legend",
    "objective": "that the policy was trained with; base: not trained",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training; empty for the base policy",
    "k": "x: of Pass@k or Max@k",
    "estimate": "y: Pass@k in %, or Max@k in units of reward; mean over seeds",
    "low": "lower end of the band, mean over seeds of the 95 % intervals over resampled problems",
    "high": "upper end of the band",
    "lowest": "lower end of the whisker: the estimate of the lowest seed",
    "highest": "upper end of the whisker: the estimate of the highest seed",
    "error_seeds": "standard error of the estimate over seeds; empty with one seed",
    "seeds": "training seeds averaged",
    "problems": "in the benchmark",
    "samples": "per problem",
}

PANELS_PER_ROW = 3


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each point of each line.

    Raises: InputError for curves that lack a point, or in which a number is not finite.
    """
    import pandas as pd

    panels = [*experiment.benchmarks_of(figure.suite(experiment)), POOLED]
    methods = methods_of(experiment, figure.policies(experiment))
    unit = 100 if figure.metric == "pass_at_k" else 1
    points = ["benchmark", "method", "k"]
    curves = pd.concat(
        _curve(experiment, figure, policy, panels).assign(method=method.label)
        for method in methods
        for policy in method.policies
    )
    means = curves.groupby(points, as_index=False).agg(
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
    means[["estimate", "low", "high", "lowest", "highest", "error_seeds"]] *= unit
    trained = pd.DataFrame(
        [(method.label, method.objective, method.k, method.n) for method in methods],
        columns=["method", "objective", "trained_k", "n"],
    )
    result = means.merge(trained.astype({"trained_k": "Int64", "n": "Int64"}), on="method")
    for column, order in (("method", trained["method"]), ("benchmark", panels)):
        result[column] = pd.Categorical(result[column], order)
    return result.sort_values(points, ignore_index=True)[list(COLUMNS)]


def _curve(
    experiment: "Experiment", figure: Figure, policy: str, panels: list[str]
) -> "pd.DataFrame":
    import numpy as np

    from rspo.core.tables import CURVES, read_frame

    path = experiment.curves(policy, figure.suite(experiment))
    rows = read_frame(path, CURVES)
    chosen = rows[(rows["metric"] == figure.metric) & (rows["cell"] == policy)]
    curve = chosen.set_index(["benchmark", "k"])
    ks = sorted(experiment.config.evaluation.k)
    for benchmark, k in (points := [(panel, k) for panel in panels for k in ks]):
        if (benchmark, k) not in curve.index:
            raise InputError(
                f"{path}: has no {figure.metric} of {policy} on {benchmark} at k = {k}; remake it"
            )
        values = curve.loc[(benchmark, k), ["estimate", "low", "high"]].to_list()
        if not np.isfinite(np.array(values, dtype=float)).all():
            raise InputError(
                f"{path}: {figure.metric} on {benchmark} at k = {k} has estimate, low, high = "
                f"{values}; all must be finite"
            )
    return curve.loc[points].reset_index()


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    suite = experiment.config.data.suites[figure.suite(experiment)]
    labels = {name: benchmark.label for name, benchmark in suite.items()} | {POOLED: "pooled"}
    rows = -(-len(labels) // PANELS_PER_ROW)
    picture = style.new_picture(style.TEXT_WIDTH, 0.75 + 1.75 * rows)
    _draw_panels(picture, table, labels, experiment, figure)
    _note(picture, table, experiment, figure)
    return picture


def draw_pooled(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    """Only the panel of all problems, one column wide and without the small print."""
    picture = style.new_picture(style.COLUMN_WIDTH, 2.3)
    rows = table[table["benchmark"] == POOLED]
    _draw_panels(picture, rows, {POOLED: "pooled"}, experiment, figure)
    return picture


def _draw_panels(
    picture: "Picture",
    table: "pd.DataFrame",
    labels: dict[str, str],
    experiment: "Experiment",
    figure: Figure,
) -> None:
    """A panel for each benchmark in `labels`, which has their titles, and the legend."""
    methods = methods_of(experiment, figure.policies(experiment))
    plot = (
        style.plot(table, picture, x="k", y="estimate")
        .facet("benchmark", order=list(labels), wrap=PANELS_PER_ROW)
        .share(x=False, y=False)
        .scale(x=style.log2(sorted(set(table["k"]))))
    )
    plot = style.add_intervals(plot, table, methods, "low", "high", alpha=0.08)
    if table["seeds"].max() > 1:
        plot = style.add_intervals(plot, table, methods, "lowest", "highest", alpha=None)
    plot = style.add_lines(plot, table, methods)
    name, unit = (
        ("Pass@k", "accuracy (%)")
        if figure.metric == "pass_at_k"
        else ("Max@k", "mean best reward")
    )
    plot.label(x=f"k of {name}", y=unit, title=labels.get).plot()
    panels = table.groupby("benchmark", sort=False, observed=True)
    for axes, (_, panel) in zip(picture.axes, panels, strict=True):
        axes.set_title(
            f"{panel['problems'].iloc[0]} problems", loc="right", color=style.FAINT, size=7
        )
    style.legend(picture, methods)


def _note(
    picture: "Picture", table: "pd.DataFrame", experiment: "Experiment", figure: Figure
) -> None:
    methods = methods_of(experiment, figure.policies(experiment))
    several = table["seeds"].max() > 1
    samples = " or ".join(str(samples) for samples in sorted(set(table["samples"])))
    style.note(
        picture,
        f"{face(experiment, methods)}, {samples} samples per problem",
        "bands: 95 % over resampled problems"
        + (", mean over seeds; whiskers: lowest to highest seed" if several else ""),
    )


_BANDS = (
    "bands are 95 % intervals over resampled problems, averaged over seeds. All methods answer the "
    "same problems, so bands can overlap where the paired difference is clear. With several "
    "training seeds, whiskers reach from the lowest to the highest seed."
)


def _figure(name: str, shows: str, *grids: str, metric: str = "pass_at_k") -> Figure:
    caption = f"{shows}; {_BANDS}"
    return Figure(name, caption, COLUMNS, table, draw, grids=grids, curves=True, metric=metric)


def of_grid_entry(grid: str, entry: "GridEntry") -> Figure:
    """The figure of a grid entry that no other figure draws."""
    binary = any(spec.reward == "binary" for spec in entry.cells)
    metric = "pass_at_k" if binary else "max_at_k"
    value = "Accuracy (Pass@k)" if binary else "Max@k, the expected best reward of k responses,"
    return _figure(f"fig_{grid}", f"{value} of the policies in grid.{grid}", grid, metric=metric)


MAIN = _figure(
    "fig_main",
    "Accuracy (Pass@k) of policy gradient (PG), RSPO, the hitchhiking baseline and the base model "
    "on each benchmark and on all problems pooled",
    "main",
)
OTHERS = (
    _figure(
        "fig_scalability",
        "Accuracy (Pass@k) of RSPO at fixed k trained with different numbers n of responses per "
        "prompt",
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
