"""What was run, and what came out in a few numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from rspo.claims.verdicts import OPEN
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.figures import Figure
from rspo.report import figure_files, figures, table_path
from rspo.report.main_table import Row, Shown, read_csv


@dataclass(frozen=True)
class Headlines:
    """facts: what was run, as (name, value); best: sentences; table: where they come from."""

    facts: list[tuple[str, str]]
    best: list[str]
    table: Shown


@dataclass(frozen=True)
class _Form:
    """How a metric is written: its name before k, units of values and of differences, decimals."""

    name: str
    measured_in: str
    unit: str
    points: str
    decimals: int

    def of(self, row: Row, key: str = "estimate") -> str:
        return f"{float(row[key]):.{self.decimals}f}"


_FORMS = {
    "pass_at_k": _Form("Pass@", "in %", " %", " points", 1),
    "max_at_k": _Form("Max@", "in units of reward", "", "", 3),
}


def headlines(experiment: Experiment) -> Headlines:
    """Read from the numbers of the first figure of results, and from the tables.

    Raises: InputError for tables that are missing or lack a column, or without a figure of results.
    """
    figure = next((figure for figure in figures(experiment) if figure.curves), None)
    if figure is None:
        raise InputError(f"config/{experiment.scale}.yaml: no comparison of grid has a figure")
    columns = ("benchmark", "method", "k", "estimate", "low", "high", "problems")
    rows = read_csv(figure_files(experiment, figure)[1], *columns)
    pooled = [row for row in rows if row["benchmark"] == "pooled"]
    ks = list(dict.fromkeys(row["k"] for row in pooled))
    by_k = {k: [row for row in pooled if row["k"] == k] for k in ks}
    form, tests = _FORMS[figure.metric], _tests(experiment, figure)
    best = [_best(form, k, by_k[k], tests) for k in ks]
    return Headlines(_facts(experiment), best, _table(form, figure.name, by_k))


def _facts(experiment: Experiment) -> list[tuple[str, str]]:
    config = experiment.config
    columns = ("cell", "benchmark", "problems", "samples")
    curves = read_csv(table_path(experiment, "curves"), *columns)
    counts = {
        (row["cell"], row["benchmark"]): int(row["problems"]) * int(row["samples"])
        for row in curves
        if row["benchmark"] != "pooled"
    }
    problems = {row["benchmark"]: row["problems"] for row in curves}
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
            "Responses judged",
            f"{sum(counts.values()):,}, of {len({cell for cell, _ in counts})} policies, "
            f"N = {config.evaluation.samples} a problem, verifier {config.verifier}",
        ),
    ]


def _tests(experiment: Experiment, figure: Figure) -> list[Row]:
    """The deciding comparisons "this is above 0" of a figure's policies, all problems pooled."""
    columns = ("claim", "decides", "comparison", "metric", "k", "benchmark", "margin", "outcome")
    path = table_path(experiment, "claim_comparisons")
    policies = set(figure.policies(experiment))
    return [
        row
        for row in read_csv(path, *columns, "cells", empty=True)
        if (row["decides"], row["metric"], row["benchmark"]) == ("yes", figure.metric, "pooled")
        and not row["margin"]
        and policies.issuperset(row["cells"].split())
    ]


def _best(form: _Form, k: str, rows: Sequence[Row], tests: Sequence[Row]) -> str:
    """Who is highest at k, by how much, and what a claim says of that."""
    first, *others = sorted(rows, key=lambda row: -float(row["estimate"]))
    highest = f"{form.name}{k}: {first['method']} is highest, with {form.of(first)}{form.unit}"
    if not others:
        return f"{highest}."
    second = others[0]
    lead = f"{float(first['estimate']) - float(second['estimate']):.{form.decimals}f}{form.points}"
    said = _resolved(k, first["method"], second["method"], tests)
    return f"{highest}, {lead} above {second['method']}: {said}."


def _resolved(k: str, first: str, second: str, tests: Sequence[Row]) -> str:
    pair = {f"{first} - {second}".casefold(), f"{second} - {first}".casefold()}
    for test in tests:
        if test["k"] == k and test["comparison"].casefold() in pair:
            found = "not resolved" if test["outcome"] == OPEN else "significant"
            return f"{found} ({test['claim']})"
    return "no claim rests on this difference"


def _table(form: _Form, figure: str, by_k: dict[str, list[Row]]) -> Shown:
    methods = list(dict.fromkeys(row["method"] for rows in by_k.values() for row in rows))
    cells = {(row["method"], k): _interval(form, row) for k, rows in by_k.items() for row in rows}
    return Shown(
        f"{form.name}k {form.measured_in}, all problems pooled: the last panel of {figure}; in "
        "brackets 95 % intervals over resampled problems alone, without the variance of training",
        ["method", *(f"{form.name}{k}" for k in by_k)],
        [[method, *(cells[method, k] for k in by_k)] for method in methods],
    )


def _interval(form: _Form, row: Row) -> str:
    return f"{form.of(row)} ({form.of(row, 'low')} to {form.of(row, 'high')})"
