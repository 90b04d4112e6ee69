"""Compute p-values, outcomes and verdicts of measured comparisons; write and read their table.

docs/statistics.md defines the verdicts, and says which errors they control.
"""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rspo.analysis.claims import TRANSFER
from rspo.analysis.comparisons import Comparison
from rspo.config.schema import POOLED
from rspo.core.errors import InputError
from rspo.core.tables import read_csv, write_csv
from rspo.evaluation.statistics import LEVEL, Estimate, PValues, holm, least_p_of_seeds

Row = dict[str, Any]
SUPPORTED = "supported"
CONTRADICTED = "contradicted"
PARTLY_SUPPORTED = "partly supported"
NOT_RESOLVED = "not resolved at this size"
DOES_NOT_TRANSFER = "does not transfer"
NOT_TESTED = "not tested"
TWO_SEEDS = "two training seeds give intervals and no p-values"
# What a test shows of a difference: its sign, or that it is within the margin of a tie, or nothing.
ABOVE = "above"
BELOW = "below"
TIE = "tie"
OPEN = "open"
# What a test shows of a claim, if it is neither TIE nor OPEN.
FOR = "for"
AGAINST = "against"
# The columns of every table of comparisons; docs/files.md explains them.
COLUMNS = [
    "id",
    "study",
    "claim",
    "variant",
    "method_a",
    "method_b",
    "metric",
    "k",
    "where",
    "decides",
    "margin",
    "estimate",
    "low",
    "high",
    "error_problems",
    "error_seeds",
    "error",
    "degrees",
    "family",
    "tests",
    "p_computed",
    "p",
    "p_adjusted",
    "tie_margin",
    "p_tie",
    "p_tie_adjusted",
    "outcome",
    "seeds",
    "problems",
    "samples",
    "cells",
]
# Joined by "/", the values of these columns that are not empty are the id of a comparison.
_ID = ("study", "claim", "variant", "method_a", "method_b", "metric", "k", "where", "family")
# Columns of whole numbers, which may be unknown.
_COUNTS = ["tests", "seeds", "problems", "samples"]
# The numeric columns of all tables that `read_rows` reads.
_NUMBERS = {"estimate", "low", "high", "lowest", "highest", "error", "error_problems"}
_NUMBERS |= {"error_seeds", "degrees", "tests", "p_computed", "p", "p_adjusted", "margin"}
_NUMBERS |= {"tie_margin", "p_tie", "p_tie_adjusted", "seeds", "problems", "samples", "count"}
_NUMBERS |= {"wall_seconds", "cpu_seconds", "gpu_seconds"}


def with_p_values(rows: list[Row], study: str = "") -> list[Row]:
    """Complete the rows of `row_of`: their ids, p-values adjusted within each family, and outcomes.

    The comparisons that decide a claim are one family, and its other comparisons another. In a
    study, a comparison whose `family` is empty is not tested, and one that decides no claim gets no
    outcome. The p-values of ties are adjusted over the same families, but only for the comparisons
    that may be a tie.

    Args:
        study: the name of the study; empty for the claims of the paper.

    Returns: `rows`, which are changed in place.
    """
    for row in rows:
        row["study"] = study
        row["id"] = "/".join(filter(None, (row[key] for key in _ID)))
        if study and row["decides"] == "no":
            row["decides"] = ""
    families: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["family"] or not study:
            claim = "" if study else row["claim"]  # a study's family may have several claims
            families.setdefault((row["family"], row["decides"], claim), []).append(row)
    for family in families.values():
        for row in family:
            row["tests"] = len(family)
            row["p"] = with_floor(row["p_computed"], row["seeds"])
            row["p_tie_adjusted"] = nan
        _adjust(family, "p_computed", "p_adjusted")
        may_tie = [row for row in family if row["tie_margin"] is not None]
        _adjust(may_tie, "p_tie", "p_tie_adjusted")
        for row in family:
            row["outcome"] = _outcome(row) if row["decides"] else ""
    return rows


def _adjust(rows: Sequence[Row], computed: str, adjusted: str) -> None:
    """Adjust the p-values of one family by Holm, each at least the smallest that may be printed.

    Args:
        computed: the key of the p-values.
        adjusted: the key for the adjusted ones.
    """
    for row, p in zip(rows, holm([row[computed] for row in rows]).tolist(), strict=True):
        row[adjusted] = with_floor(p, row["seeds"])


def adjusted_together(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Copies of rows of several families, with p-values adjusted over all of them by Holm."""
    copies = [dict(row) for row in rows]
    _adjust(copies, "p_computed", "p_adjusted")
    _adjust(copies, "p_tie", "p_tie_adjusted")
    return copies


def with_floor(p: float, seeds: int) -> float:
    """The larger of a p-value and the smallest that its number of seeds supports; NaN stays NaN."""
    return float(np.maximum(p, least_p_of_seeds(seeds)))


def _outcome(row: Row) -> str:
    """What a comparison shows of its claim: `FOR`, `AGAINST`, `TIE` or `OPEN`."""
    is_for = row["p_for"] < row["p_against"]
    # A claim is supported only if all its deciding comparisons support it, so these p-values need
    # no adjustment (an intersection-union test).
    p = row["p"] if is_for and row["decides"] == "yes" else row["p_adjusted"]
    if p < LEVEL:  # a difference, though perhaps a small one
        return FOR if is_for else AGAINST
    return TIE if row["p_tie_adjusted"] < LEVEL else OPEN


def shown_by(row: Mapping[str, Any]) -> str:
    """What the adjusted p-values of a row show: `ABOVE` or `BELOW` 0, else `TIE` or `OPEN`."""
    if row["p_adjusted"] < LEVEL:
        return ABOVE if row["estimate"] > 0 else BELOW
    return TIE if row["p_tie_adjusted"] < LEVEL else OPEN


def verdict(rows: Sequence[Row]) -> str:
    """The verdict on a claim, from all of its comparisons, of which at least one decides."""
    if all(row["seeds"] == 2 for row in deciding(rows)):
        return f"{NOT_TESTED}: {TWO_SEEDS}"
    outcomes = {row["outcome"] for row in deciding(rows)}
    if AGAINST in outcomes:
        return CONTRADICTED
    if outcomes == {FOR}:
        return SUPPORTED
    if any(_is_lost(rows, row) for row in rows):
        return DOES_NOT_TRANSFER
    if outcomes <= {FOR, TIE}:
        widest = max(row["tie_margin"] for row in deciding(rows) if row["outcome"] == TIE)
        # That all comparisons are as claimed needs no adjustment, but that some are does.
        is_partly = any(row["p_adjusted"] < LEVEL for row in deciding(rows))
        return partly_supported(widest) if is_partly else tie_within(widest)
    return NOT_RESOLVED


def partly_supported(margin: float) -> str:
    """The verdict on a claim some of whose differences are above 0, and all others a tie."""
    return f"{PARTLY_SUPPORTED} (the rest {tie_within(margin)})"


def tie_within(margin: float) -> str:
    """The verdict on a claim none of whose differences is above 0, and that fails by little."""
    points = f"{100 * margin:g}"
    return f"{TIE} within {points} {'point' if points == '1' else 'points'}"


def _is_lost(rows: Sequence[Row], transfer: Row) -> bool:
    """Whether a difference is lost on another suite than the usual one.

    It is lost if it is significantly smaller on this suite than on the usual one, and not
    significantly above 0 on this suite.

    Args:
        rows: the comparisons of the claim.
        transfer: one of `rows`. Only the family `TRANSFER` compares this suite with the usual one;
            for a row of another family, the result is False.
    """
    if transfer["family"] != TRANSFER or transfer["outcome"] != AGAINST:
        return False
    for row in rows:
        is_same = row["cells"] == transfer["cells"] and row["k"] == transfer["k"]
        if is_same and row["where"] == POOLED and row["family"] != TRANSFER:
            return not (row["p_for"] < row["p_against"] and row["p"] < LEVEL)
    raise ValueError(f"no difference on this suite for {transfer['id']}")


def deciding(rows: Sequence[Row]) -> list[Row]:
    """The comparisons on which the verdict depends."""
    return [row for row in rows if row["decides"] == "yes"]


def row_of(
    comparison: Comparison,
    estimate: Estimate,
    problems: int = 0,
    samples: int = 0,
) -> Row:
    """A row of the table of comparisons, before the tests.

    Its unadjusted p-values are in `p_for`, `p_against`, `p_computed` and `p_tie`, from which
    `with_p_values` computes the outcomes. The first two are no columns of the table.

    Args:
        problems, samples: their numbers; 0 for comparisons of training logs.
    """
    low, high = estimate.interval()
    p_values = estimate.p_values()
    if comparison.margin is not None:
        p_values = _p_within(estimate, comparison.margin, problems)
    p_tie = nan
    if comparison.tie_margin is not None:
        p_tie = _p_within(estimate, comparison.tie_margin, problems).p_for
    where = comparison.where + (" minus the usual suite" if comparison.against else "")
    return {
        "claim": comparison.claim,
        "variant": comparison.variant,
        "method_a": comparison.method_a,
        "method_b": comparison.method_b,
        "metric": comparison.metric,
        "k": " ".join(map(str, comparison.ks)),
        "where": where if comparison.benchmarks else "",
        "decides": "yes" if comparison.decides else "no",
        "margin": comparison.margin,
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "error_problems": estimate.error_problems,
        "error_seeds": estimate.error_seeds,
        "error": estimate.error,
        "degrees": estimate.degrees,
        "family": comparison.family,
        "tie_margin": comparison.tie_margin,
        "p_tie": p_tie,
        "seeds": estimate.seeds,
        "problems": problems or None,
        "samples": samples or None,
        "cells": " ".join(comparison.policies),
        "p_for": p_values.p_for,
        "p_against": p_values.p_against,
        "p_computed": p_values.two_sided,
    }


def _p_within(estimate: Estimate, margin: float, problems: int) -> PValues:
    """The p-values of "the true value is between -margin and margin".

    If all P problems have the same value, the standard error over problems is 0, which says nothing
    about problems that were not drawn. If a fraction `margin` of all problems differed by 1, P
    drawn problems would contain none of them with probability (1 - margin)^P. The p-values for the
    claim are therefore at least this.

    Args:
        problems: P; 0 for comparisons of training logs.
    """
    p_values = estimate.p_values(margin)
    if problems == 0 or estimate.error_problems > 0:
        return p_values
    least = (1 - margin) ** problems
    p_for, two_sided = np.maximum([p_values.p_for, p_values.two_sided], least).tolist()
    return p_values._replace(p_for=p_for, two_sided=two_sided)


def write_comparisons(path: Path, rows: Sequence[Row]) -> pd.DataFrame:
    """Write a table of comparisons, and return it as `read_rows` does.

    Raises: InputError if two comparisons have the same id, because the report looks rows up by id.
    """
    table = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(_COUNTS, "Int64"))
    is_repeated = table["id"].duplicated()
    if is_repeated.any():  # a user's own claim may compare the same twice
        raise InputError(f"{path}: two comparisons are {table['id'][is_repeated].iloc[0]}")
    write_csv(path, table)
    return read_rows(path)


def read_rows(path: Path) -> pd.DataFrame:
    """Read a CSV table of text and numbers; unknown numbers are NaN."""
    table = read_csv(path)
    numbers = sorted(_NUMBERS.intersection(table.columns))
    if table.empty:
        return table.astype(dict.fromkeys(numbers, float))
    # Earlier versions wrote an unknown number as "nan"; now it is empty.
    table[numbers] = table[numbers].replace("nan", "").apply(pd.to_numeric)
    return table
