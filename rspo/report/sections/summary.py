"""The section Summary: what was run, and the best method at each k."""

from dataclasses import dataclass
from math import isnan

import pandas as pd

from rspo.analysis.results import OPEN, read_comparisons
from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.figures import Figure, curves
from rspo.report import figure_files, figures, table_path
from rspo.report.page_table import PageTable
from rspo.report.rounding import interval, rounded


@dataclass(frozen=True)
class Summary:
    """facts: what was run, as (name, value); best: sentences; table: the numbers behind them.

    A scale without a figure of curves has no sentences and no table.
    """

    facts: list[tuple[str, str]]
    best: list[str]
    table: PageTable | None


@dataclass(frozen=True)
class _Format:
    """Text around a metric: its name before k, units of values and differences."""

    name: str
    measured_in: str
    unit: str
    points: str


_FORMATS = {
    "pass_at_k": _Format("Pass@", "in %", " %", " points"),
    "max_at_k": _Format("Max@", "in units of reward", "", ""),
}


def summary(experiment: Experiment) -> Summary:
    """Read the tables, and the numbers of fig_main, or else of the first figure like it.

    Raises: InputError for tables that are missing or lack a column.
    """
    figure = main_figure(experiment)
    if figure is None:
        return Summary(_facts(experiment), [], None)
    numbers = ["estimate", "low", "high", "error_seeds"]
    frame = read_csv(
        figure_files(experiment, figure)[1], "benchmark", "method", "k", *numbers, "problems"
    )
    pooled = frame[frame["benchmark"] == "pooled"].copy()
    pooled[numbers] = pooled[numbers].apply(pd.to_numeric)  # an empty error_seeds becomes NaN
    metric, tests = _FORMATS[figure.metric], _tests(experiment, figure)
    best = [_best(metric, str(k), rows, tests) for k, rows in pooled.groupby("k", sort=False)]
    return Summary(_facts(experiment), best, _table(metric, figure.name, pooled))


def main_figure(experiment: Experiment) -> Figure | None:
    """fig_main, or else the first figure like it, if the scale has one."""
    # A figure of one's own may read curves and have another table.
    candidates = {f.name: f for f in figures(experiment) if f.table is curves.table}
    return candidates.get(curves.MAIN.name) or next(iter(candidates.values()), None)


def _facts(experiment: Experiment) -> list[tuple[str, str]]:
    config = experiment.config
    columns = ("cell", "benchmark", "problems", "samples")
    rows = read_csv(table_path(experiment, "curves"), *columns)
    sizes = rows[rows["benchmark"] != "pooled"].drop_duplicates(["cell", "benchmark"])
    responses = (sizes["problems"].astype(int) * sizes["samples"].astype(int)).sum()
    problems = rows.drop_duplicates("benchmark", keep="last").set_index("benchmark")["problems"]
    labels = {
        name: benchmark.label
        for suite in config.data.suites.values()
        for name, benchmark in suite.items()
    }
    seeds = f"{config.seeds} training seed{'s' if config.seeds > 1 else ''}"
    return [
        ("Scale", experiment.scale),
        ("Trained cells", f"{len(experiment.cells)}, {seeds}"),
        ("Models", ", ".join(model.label for model in config.models.values())),
        ("Comparisons", ", ".join(config.grid)),
        (
            "Training",
            f"{config.training.steps} steps of {config.training.prompts_per_step} prompts, "
            f"engine {config.engine}",
        ),
        (
            "Benchmarks",
            ", ".join(f"{labels[name]} ({problems[name]})" for name in labels if name in problems),
        ),
        (
            "Responses verified",
            f"{responses:,}, of {sizes['cell'].nunique()} policies, "
            f"N = {config.evaluation.samples} per problem, verifier {config.verifier}",
        ),
    ]


def _tests(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """The deciding comparisons "this is above 0" of a figure's policies, all problems pooled."""
    tests = read_comparisons(table_path(experiment, "claim_comparisons"))
    drawn = read_csv(figure_files(experiment, figure)[1], "benchmark", "problems")
    policies, problems = set(figure.policies(experiment)), drawn[drawn["benchmark"] == "pooled"]
    return tests[
        (tests["decides"] == "yes")
        & (tests["metric"] == figure.metric)
        & (tests["where"] == "pooled")
        & (tests["margin"].isna())
        & tests["problems"].isin(problems["problems"].astype(float))  # not of another suite
        & tests["cells"].map(lambda cells: policies.issuperset(cells.split()))
    ]


def _best(metric: _Format, k: str, rows: pd.DataFrame, tests: pd.DataFrame) -> str:
    """The highest method at k, its lead, and whether a claim resolves the lead."""
    ordered = rows.sort_values("estimate", ascending=False, kind="stable")
    methods, estimates = ordered["method"].tolist(), ordered["estimate"].tolist()
    half = _half_width(ordered.iloc[0])
    highest = f"{metric.name}{k}: {methods[0]} is highest, with {rounded(estimates[0], half)}"
    highest += metric.unit
    if len(methods) == 1:
        return f"{highest}."
    lead = f"{rounded(estimates[0] - estimates[1], half)}{metric.points}"
    resolved = _resolved(k, methods[0], methods[1], tests)
    return f"{highest}, {lead} above {methods[1]}: {resolved}."


def _half_width(row: pd.Series) -> float:
    return float(row["high"] - row["low"]) / 2


def _resolved(k: str, first: str, second: str, tests: pd.DataFrame) -> str:
    pair = {f"{first} - {second}".casefold(), f"{second} - {first}".casefold()}
    names = (tests["method_a"] + " - " + tests["method_b"]).str.casefold()
    tested = tests[(tests["k"] == k) & names.isin(pair)]
    if tested.empty:
        return "no claim tests this difference"
    test = tested.iloc[0]
    return f"{'not resolved' if test['outcome'] == OPEN else 'significant'} ({test['claim']})"


def _table(metric: _Format, figure: str, pooled: pd.DataFrame) -> PageTable:
    cells = pooled.apply(_cell, axis="columns")
    table = pooled.assign(cell=cells).pivot(index="method", columns="k", values="cell")
    ks, methods = pooled["k"].unique(), pooled["method"].unique()
    seeds = (
        "after ± the standard error over training seeds"
        if pooled["error_seeds"].notna().any()
        else "without the variance of training"
    )
    return PageTable(
        f"{metric.name}k {metric.measured_in}, all problems pooled: the first panel of {figure}; "
        f"in brackets 95 % intervals over resampled problems only, {seeds}",
        ["method", *(f"{metric.name}{k}" for k in ks)],
        table.loc[methods, ks].reset_index().to_numpy().tolist(),
    )


def _cell(row: pd.Series) -> str:
    error = row["error_seeds"]
    seeds = "" if isnan(error) else f" \u00b1 {rounded(error, error)}"
    estimate = rounded(row["estimate"], _half_width(row))
    return f"{estimate} ({interval(row['low'], row['high'])}){seeds}"
