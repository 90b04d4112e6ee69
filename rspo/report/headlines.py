"""What was run, and what came out in a few numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.report import figure_files, figures, table_path
from rspo.report.table import Row, Shown, read_csv


@dataclass(frozen=True)
class Headlines:
    """facts: what was run, as (name, value); best: sentences; table: where they come from."""

    facts: list[tuple[str, str]]
    best: list[str]
    table: Shown


def headlines(experiment: Experiment) -> Headlines:
    """Read from the numbers of the first figure of results, and from tables/curves.csv.

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
    metric = {"pass_at_k": "Pass@", "max_at_k": "Max@"}[figure.metric]
    table = _table(metric, figure.name, by_k)
    return Headlines(_facts(experiment), [_best(metric, k, by_k[k]) for k in ks], table)


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


def _best(metric: str, k: str, rows: Sequence[Row]) -> str:
    """Who is highest at k; whether that is more than chance is the claims' business."""
    first = max(rows, key=lambda row: float(row["estimate"]))
    return f"{metric}{k}: {first['method']} is highest, with {float(first['estimate']):.1f} %."


def _table(metric: str, figure: str, by_k: dict[str, list[Row]]) -> Shown:
    methods = list(dict.fromkeys(row["method"] for rows in by_k.values() for row in rows))
    cells = {(row["method"], k): _interval(row) for k, rows in by_k.items() for row in rows}
    return Shown(
        f"{metric}k in % with 95 % interval, all problems pooled: the last panel of {figure}",
        ["method", *(f"{metric}{k}" for k in by_k)],
        [[method, *(cells[method, k] for k in by_k)] for method in methods],
    )


def _interval(row: Row) -> str:
    estimate, low, high = (float(row[key]) for key in ("estimate", "low", "high"))
    return f"{estimate:.1f} ({low:.1f} to {high:.1f})"
