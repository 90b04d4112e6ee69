"""The section Tables: the curves and the answers of every policy."""

from collections.abc import Iterator
from math import isnan
from typing import Any

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.tables import read_csv
from rspo.evaluation.statistics import NORMAL
from rspo.report import table_path
from rspo.report.page_table import PageTable, page_table
from rspo.report.rounding import rounded

METRICS = {"pass_at_k": ("Pass@", "%"), "max_at_k": ("Max@", "units of reward")}


def tables(experiment: Experiment) -> list[PageTable]:
    """Pooled curves by metric and suite, and answers by suite; the last table has all curves.

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
        *_answers(experiment),
        page_table("The curves of every policy on every benchmark: tables/curves.csv", frame),
    ]


def _answers(experiment: Experiment) -> Iterator[PageTable]:
    """For each suite, one row for each policy: how often responses have an answer and differ."""
    numbers = ["responses", "without_answer", "most_common", "k", "different", "different_error"]
    columns = ("policy", "suite", "benchmark", *numbers, "pass_hat_k", "pass_hat_k_error")
    rows = read_csv(table_path(experiment, "answers"), *columns)
    rows = rows.astype(dict.fromkeys(columns[3:], float) | {"k": int})
    rows = rows[rows["benchmark"] == POOLED]
    for suite, of_suite in rows.groupby("suite", sort=False):
        k = sorted(of_suite["k"].unique())[of_suite["k"].nunique() // 2]
        yield PageTable(
            f"Answers of every policy, all problems of the suite {suite} pooled: responses and "
            f"those without an answer, which count as wrong; number of different answers among {k} "
            "responses to a problem; how often its most common answer was given; and pass^k, the "
            "probability that all k responses are correct, in %",
            [
                *("policy", "responses", "without answer", f"different of {k}", "most common"),
                f"pass^{k}",
            ],
            [
                [
                    row.policy,
                    f"{row.responses:,.0f}",
                    *_of_answers(row),
                    rounded(100 * row.pass_hat_k, 100 * NORMAL * row.pass_hat_k_error),
                ]
                for row in of_suite[of_suite["k"] == k].itertuples()
            ],
        )


def _of_answers(row: Any) -> list[str]:
    """Without answer, different and most common; unknown for a verifier of the user's own."""
    if isnan(row.most_common):
        return ["unknown"] * 3
    return [
        f"{row.without_answer / row.responses:.1%}",
        rounded(row.different, NORMAL * row.different_error),
        f"{row.most_common:.1%}",
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
