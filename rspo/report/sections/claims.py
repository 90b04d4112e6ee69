"""The section Claims: the paper's claims and their verdicts, as `rspo claims` wrote them."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.report import table_path
from rspo.report.page_table import PageTable, number, page_table

Row = Mapping[str, str]
# The template shows these on their own; all further columns become facts.
_SHOWN = [
    *("claim", "title", "hypothesis", "estimate", "low", "high", "p_adjusted", "verdict", "seeds")
]


@dataclass(frozen=True)
class Claim:
    """One claim; facts: further information, as (name, value)."""

    name: str
    title: str
    verdict: str
    estimate: str
    interval: str
    p: str
    seeds: str
    facts: list[tuple[str, str]]
    comparisons: PageTable | None


@dataclass(frozen=True)
class Claims:
    """counts: number of claims by verdict, the most common first."""

    counts: dict[str, int]
    claims: list[Claim]


def claims(experiment: Experiment) -> Claims:
    """Read tables/claims.csv and tables/claim_comparisons.csv.

    Raises: InputError for tables that are missing or lack a column.
    """
    frame = read_csv(table_path(experiment, "claims"), *_SHOWN, "cells")
    comparisons = read_csv(table_path(experiment, "claim_comparisons"), "claim", empty=True)
    by_claim = dict(list(comparisons.groupby("claim")))
    rows: list[Row] = frame.to_dict("records")
    counts = frame["verdict"].map(_short).value_counts()
    return Claims(counts.to_dict(), [_claim(row, by_claim.get(row["claim"])) for row in rows])


def _claim(row: Row, comparisons: pd.DataFrame | None) -> Claim:
    rounded = dict(zip(row, page_table("", pd.DataFrame([row])).rows[0], strict=True))
    verdict = _short(row["verdict"])
    return Claim(
        name=row["claim"],
        title=row["title"],
        verdict=verdict,
        estimate=rounded["estimate"],
        interval=_interval(rounded),
        p=number(row["p_adjusted"], digits=2),
        seeds=row["seeds"],
        facts=[
            ("Hypothesis", row["hypothesis"]),
            *([("Verdict", row["verdict"])] if row["verdict"] != verdict else []),
            *((_heading(key), rounded[key]) for key in row if key not in _SHOWN),
        ],
        comparisons=None
        if comparisons is None
        else page_table(f"The comparisons behind {row['claim']}", comparisons),
    )


def _interval(row: Row) -> str:
    return "none" if row["low"] in ("", "nan") else f"{row['low']} to {row['high']}"


def _short(verdict: str) -> str:
    """The verdict without the reason that follows a colon."""
    return verdict.partition(":")[0]


def _heading(column: str) -> str:
    return column.replace("_", " ").capitalize()
