"""The paper's claims and what our data say, as `rspo claims` wrote them."""

from collections import Counter
from dataclasses import dataclass

from rspo.config.experiment import Experiment
from rspo.report import table_path
from rspo.report.main_table import Row, Shown, number, read_csv, shown

# Each has a place of its own; whatever other columns there are is listed.
_NEEDED = (
    "claim",
    "title",
    "hypothesis",
    "estimate",
    "low",
    "high",
    "p_adjusted",
    "verdict",
    "seeds",
)


@dataclass(frozen=True)
class Claim:
    """One claim; facts: what else there is of it, as (name, value)."""

    name: str
    title: str
    verdict: str
    estimate: str
    interval: str
    p: str
    seeds: str
    facts: list[tuple[str, str]]
    comparisons: Shown | None


@dataclass(frozen=True)
class Claims:
    """counts: how many have each verdict, the commonest first."""

    counts: dict[str, int]
    claims: list[Claim]


def claims(experiment: Experiment) -> Claims:
    """Read from tables/claims.csv and tables/claim_comparisons.csv.

    Raises: InputError for tables that are missing or lack a column.
    """
    rows = read_csv(table_path(experiment, "claims"), *_NEEDED, "cells")
    comparisons = read_csv(table_path(experiment, "claim_comparisons"), "claim", empty=True)
    counts = Counter(_kind(row) for row in rows)
    return Claims(dict(counts.most_common()), [_claim(row, comparisons) for row in rows])


def _claim(row: Row, comparisons: list[Row]) -> Claim:
    found = {key: number(value) for key, value in row.items()}
    brief = {key: number(value, digits=3) for key, value in row.items()}
    own = [other for other in comparisons if other["claim"] == row["claim"]]
    return Claim(
        name=row["claim"],
        title=row["title"],
        verdict=_kind(row),
        estimate=brief["estimate"],
        interval=_interval(brief),
        p=brief["p_adjusted"],
        seeds=row["seeds"],
        facts=[
            ("Hypothesis", row["hypothesis"]),
            *([("Verdict", row["verdict"])] if row["verdict"] != _kind(row) else []),
            ("Estimate", f"{found['estimate'] or 'none'}, 95 % interval {_interval(found)}"),
            ("Adjusted p", found["p_adjusted"] or "none"),
            *((_spoken(key), found[key]) for key in row if key not in _NEEDED),
        ],
        comparisons=shown(f"The comparisons behind {row['claim']}", own) if own else None,
    )


def _interval(row: Row) -> str:
    return "none" if row["low"] in ("", "nan") else f"{row['low']} to {row['high']}"


def _kind(row: Row) -> str:
    """The verdict without its reason, which follows a colon where a claim was not tested."""
    return row["verdict"].partition(":")[0]


def _spoken(column: str) -> str:
    return column.replace("_", " ").capitalize()
