"""What the pages conclude: the headline, the main table, and each claim with what is open."""

import re
from math import ceil, inf, isnan, nan
from operator import itemgetter
from typing import Any

from rspo.analysis.claims import TRANSFER
from rspo.analysis.results import (
    AGAINST,
    CONTRADICTED,
    DOES_NOT_TRANSFER,
    NOT_RESOLVED,
    OPEN,
)
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.figures import Figure, curves, difference
from rspo.figures.methods import model_labels
from rspo.report import figure_files, figures
from rspo.report.read import Row, comparisons, table
from rspo.report.text import METRICS

_ORDER = [CONTRADICTED, DOES_NOT_TRANSFER, NOT_RESOLVED]


def headline(experiment: Experiment) -> dict[str, Any]:
    """The models and the rows of fig_difference; no rows for a scale without the figure.

    Raises: InputError for a table that is missing.
    """
    figure = next((one for one in figures(experiment) if one.name == difference.FIGURE.name), None)
    if figure is None:
        return {"rows": []}
    path = figure_files(experiment, figure)[1]
    models = model_labels(experiment, figure.policies(experiment))
    return {"models": models, "rows": table(path, empty=True).to_dict("records")}


def main_figure(experiment: Experiment) -> Figure | None:
    """fig_main, or else the first figure like it, if the scale has one."""
    # A figure of one's own may read curves and have another table.
    candidates = {f.name: f for f in figures(experiment) if f.table is curves.table}
    return candidates.get(curves.MAIN.name) or next(iter(candidates.values()), None)


def main_table(experiment: Experiment) -> dict[str, Any] | None:
    """The last panel of the main figure: the row of each method at each k.

    Raises: InputError for tables that are missing or lack a column.
    """
    figure = main_figure(experiment)
    if figure is None:
        return None
    frame = table(figure_files(experiment, figure)[1], "benchmark", "method", "k")
    pooled = frame[frame["benchmark"] == POOLED]
    by_method = pooled.groupby("method", sort=False)
    return {
        "figure": figure.name,
        "metric": figure.metric,
        "columns": [f"{METRICS[figure.metric]}@{k}" for k in pooled["k"].unique()],
        "methods": {name: rows.to_dict("records") for name, rows in by_method},
    }


def claims(experiment: Experiment) -> list[Row]:
    """The rows of claims.csv, each with the comparisons that decide it.

    `verdict` is without its `reason`, which untested claims have. `of_paper`: not one's own.
    `order`: of claims that are not supported. `weakest`: the comparison with the weakest evidence,
    or None. `unresolved`: the comparisons that are not as claimed, those against the claim first,
    then the open ones by p, each with `seeds_to_halve`. `transfer`: differences between two suites.

    Raises: InputError for tables that are missing or lack a column.
    """
    every = comparisons(experiment)
    tested = [one for one in every if one["decides"]]
    found = table(experiment.reports / "claims.csv", "claim", "verdict").to_dict("records")
    for row in found:
        verdict, _, reason = row["verdict"].partition(": ")
        deciding = [one for one in tested if one["claim"] == row["claim"]]
        open_ones = [one for one in deciding if one["outcome"] == OPEN]
        open_ones.sort(key=itemgetter("p"))
        row |= {
            "verdict": verdict,
            "reason": reason,
            "of_paper": bool(re.fullmatch(r"C\d+[a-z]?", row["claim"])),
            "order": _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER),
            "deciding": deciding,
            "transfer": [one for one in every if one["family"] == TRANSFER],
            "weakest": max(deciding, key=itemgetter("p_for"), default=None),
            "unresolved": [one for one in deciding if one["outcome"] == AGAINST] + open_ones,
        }
        for one in row["unresolved"]:
            one["seeds_to_halve"] = _seeds_to_halve(one)
    return found


def _seeds_to_halve(one: Row) -> float:
    """The number of seeds with which the error of a comparison is half of the measured one.

    With S' instead of S seeds, the part error_seeds^2 of the variance is S / S' of it, and the rest
    is that of the problems. NaN with one seed; infinite if that of the problems is more than half.
    """
    if isnan(one["error_seeds"]) or isnan(one["error"]) or one["error"] == 0:
        return nan
    rest = max(0.0, one["error"] ** 2 - one["error_seeds"] ** 2)
    left = (one["error"] / 2) ** 2 - rest
    return ceil(one["seeds"] * one["error_seeds"] ** 2 / left) if left > 0 else inf
