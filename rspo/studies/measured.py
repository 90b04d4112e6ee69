"""Combinations of comparisons, and rows of a study's table with their p-values."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rspo.claims.comparisons import ScoreComparison
from rspo.claims.measure import Measurement
from rspo.evaluation.statistics import holm

Row = dict[str, Any]
WHOLE = ("trained_k", "n", "tests", "seeds", "problems", "samples")  # columns of whole numbers


def weighted(label: str, comparisons: Iterable[tuple[float, ScoreComparison]]) -> ScoreComparison:
    """A sum of comparisons of the same problems, each times its weight."""
    pairs = list(comparisons)
    terms = tuple(
        replace(term, weight=weight * term.weight) for weight, one in pairs for term in one.terms
    )
    return replace(pairs[0][1], label=label, terms=terms)


def minus(one: ScoreComparison, other: ScoreComparison) -> ScoreComparison:
    """How much more the first comparison is than the second, paired over problems."""
    return weighted(one.label, [(1, one), (-1, other)])


def row_of(measurement: Measurement) -> Row:
    """The estimate of a comparison, its 95 % interval, and what it was measured on."""
    low, high = measurement.estimate.interval()
    return {
        "estimate": measurement.estimate.value,
        "low": low,
        "high": high,
        "p": measurement.p,
        "seeds": measurement.seeds,
        "problems": measurement.problems,
        "samples": measurement.samples,
        "cells": " ".join(measurement.comparison.policies),
    }


def with_adjusted(rows: Sequence[Row]) -> list[Row]:
    """The rows with `tests` and `p_adjusted`: Holm's method over the rows of each `family`."""
    result = [dict(row) for row in rows]
    for family in {row["family"]: None for row in rows if row.get("family")}:
        tested = [row for row in result if row.get("family") == family]
        for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
            row |= {"tests": len(tested), "p_adjusted": float(p)}
    return result


def frame_of(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """A study's table, with adjusted p-values; what a row lacks is empty."""
    table = pd.DataFrame(with_adjusted(rows), columns=list(columns))
    return table.astype({name: "Int64" for name in WHOLE if name in table})
