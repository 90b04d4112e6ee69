"""The section Tables: the curves of every policy."""

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.report import table_path
from rspo.report.page_table import PageTable, page_table
from rspo.report.rounding import rounded

METRICS = {"pass_at_k": ("Pass@", "%"), "max_at_k": ("Max@", "units of reward")}


def tables(experiment: Experiment) -> list[PageTable]:
    """Pooled curves by metric and suite; the last table has all curves.

    Raises: InputError for a table that is missing or lacks a column.
    """
    columns = ("cell", "benchmark", "metric", "k", "estimate", "low", "high", "suite")
    frame = read_csv(table_path(experiment, "curves"), *columns)
    pooled = frame[frame["benchmark"] == "pooled"]
    return [
        *(
            _by_k(metric, suite, rows)
            for (metric, suite), rows in pooled.groupby(["metric", "suite"], sort=False)
        ),
        page_table("The curves of every policy on every benchmark: tables/curves.csv", frame),
    ]


def _by_k(metric: str, suite: str, rows: pd.DataFrame) -> PageTable:
    name, unit = METRICS[metric]
    factor = 100 if unit == "%" else 1
    numbers = factor * rows[["estimate", "low", "high"]].astype(float)
    estimates = [
        rounded(estimate, (high - low) / 2)
        for estimate, low, high in numbers.itertuples(index=False)
    ]
    by_k = rows.assign(estimate=estimates).pivot(index="cell", columns="k", values="estimate")
    ks = rows["k"].unique()
    by_k = by_k.loc[rows["cell"].unique(), ks]
    return PageTable(
        f"{name}k of every policy in {unit}, all problems of the suite {suite} pooled",
        ["policy", *(f"{name}{k}" for k in ks)],
        by_k.reset_index().to_numpy().tolist(),
    )
