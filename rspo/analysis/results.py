"""From measured comparisons to p-values, outcomes and verdicts, and the table of comparisons.

A claim is supported if each of its deciding comparisons is significantly as it says, each at the
level `LEVEL`: if a claim is wrong, one of its comparisons is, so the level holds without adjustment
(an intersection-union test). It is contradicted if at least one is significantly the opposite,
adjusted by Holm for all that decide it. docs/statistics.md says which errors this controls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from rspo.analysis.claims import TRANSFER
from rspo.analysis.comparisons import Comparison
from rspo.analysis.measure import Measurement
from rspo.core.tables import read_csv, write_csv
from rspo.evaluation.statistics import LEVEL, holm

SUPPORTED = "supported"
CONTRADICTED = "contradicted"
NOT_RESOLVED = "not resolved at this size"
DOES_NOT_TRANSFER = "does not transfer"
NOT_TESTED = "not tested"
FOR, AGAINST, OPEN = "for", "against", "open"
# The columns of every table of comparisons; docs/files.md explains them.
COLUMNS = [
    *("id", "study", "claim", "variant", "method_a", "method_b", "metric", "k", "where"),
    *("decides", "margin", "estimate", "low", "high", "error_problems", "error_seeds", "error"),
    *("degrees", "pool", "p_equal", "family", "tests", "p", "p_adjusted", "outcome"),
    *("seeds", "problems", "samples", "cells"),
]
_WHOLE = ["pool", "tests", "seeds", "problems", "samples"]
# What code reads; templates name the others, and fail with their place without one.
_READ = [
    *("id", "claim", "metric", "k", "where", "decides", "margin", "estimate", "p", "outcome"),
    "cells",
]
_TEXT = [*COLUMNS[:10], "family", "outcome", "cells"]


@dataclass(frozen=True)
class Result:
    """A comparison with its p-value, adjusted for the tests of its family, and its outcome."""

    measurement: Measurement
    p_adjusted: float
    outcome: str
    tests: int


def results_of(measurements: Sequence[Measurement]) -> list[Result]:
    """Results of tests; each family of tests is adjusted on its own."""
    families = [(one.comparison.family, one.comparison.decides) for one in measurements]
    adjusted: dict[int, float] = {}
    for family in dict.fromkeys(families):
        members = [i for i, own in enumerate(families) if own == family]
        adjusted |= zip(members, holm([measurements[i].p for i in members]), strict=True)
    return [
        Result(one, float(adjusted[i]), _outcome(one, adjusted[i]), families.count(families[i]))
        for i, one in enumerate(measurements)
    ]


def _outcome(measurement: Measurement, p_adjusted: float) -> str:
    is_for = measurement.p_for < measurement.p_against
    p = measurement.p if is_for and measurement.comparison.decides else p_adjusted
    if not p < LEVEL:
        return OPEN
    return FOR if is_for else AGAINST


def verdict(results: Sequence[Result]) -> str:
    """The verdict on a claim, from all of its results."""
    outcomes = {result.outcome for result in deciding(results)}
    if AGAINST in outcomes:
        return CONTRADICTED
    if outcomes == {FOR}:
        return SUPPORTED
    return DOES_NOT_TRANSFER if any(map(partial(_is_lost, results), results)) else NOT_RESOLVED


def _is_lost(results: Sequence[Result], transfer: Result) -> bool:
    """Whether a difference is smaller here than on the usual suite, and not above 0 here."""
    there = transfer.measurement.comparison
    if there.family != TRANSFER or transfer.outcome != AGAINST:
        return False
    found = next(
        one.measurement
        for one in results
        if one.measurement.comparison.terms == there.terms
        if one.measurement.comparison.where == there.where and one is not transfer
    )
    return not (found.p_for < found.p_against and found.p < LEVEL)


def weakest(results: Sequence[Result]) -> Result:
    """The deciding result with the weakest evidence for the claim."""
    return max(deciding(results), key=lambda result: result.measurement.p_for)


def deciding(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.measurement.comparison.decides]


def row_of(
    measurement: Measurement, result: Result | None = None, study: str = ""
) -> dict[str, Any]:
    """A row of the table of comparisons; without a result, the comparison is not tested."""
    comparison, estimate = measurement.comparison, measurement.estimate
    low, high = estimate.interval()
    row = {
        "study": study,
        "claim": comparison.claim,
        "variant": comparison.variant,
        "method_a": comparison.method_a,
        "method_b": comparison.method_b,
        "metric": comparison.metric,
        "k": " ".join(map(str, comparison.ks)),
        "where": _where(comparison),
    }
    of_claim = not study or comparison.decides  # a contrast of a study decides no claim
    tested = result and {
        "decides": ("yes" if comparison.decides else "no") if of_claim else "",
        "family": comparison.family,
        "tests": result.tests,
        "p": measurement.p,
        "p_adjusted": result.p_adjusted,
        "outcome": result.outcome if of_claim else "",
    }
    return {
        "id": "/".join(filter(None, [*row.values(), comparison.family])),
        **row,
        "margin": comparison.margin,
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "error_problems": estimate.error_problems,
        "error_seeds": estimate.error_seeds,
        "error": estimate.error,
        "degrees": estimate.degrees,
        "pool": measurement.of_seeds.methods or None,
        "p_equal": measurement.of_seeds.p_equal,
        **(tested or {}),
        "seeds": measurement.seeds,
        "problems": measurement.problems or None,
        "samples": measurement.samples or None,
        "cells": " ".join(comparison.policies),
    }


def _where(comparison: Comparison) -> str:
    if not comparison.of_scores:
        return ""
    return comparison.where + (" minus the usual suite" if comparison.against else "")


def write_comparisons(path: Path, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Write a table of comparisons, and return it as `read_comparisons` does.

    Raises: ValueError for two comparisons with the same id.
    """
    table = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(_WHOLE, "Int64"))
    if not table["id"].is_unique:
        raise ValueError(
            f"{path}: two comparisons are {table['id'][table['id'].duplicated()].iloc[0]}"
        )
    write_csv(path, table)
    return read_comparisons(path)


def read_comparisons(path: Path) -> pd.DataFrame:
    """A table of comparisons: text, and numbers that are NaN where they are unknown.

    Raises: InputError for a table that is missing or lacks a column.
    """
    table = read_csv(path, *_READ, empty=True)
    numbers = [column for column in table.columns if column not in _TEXT]
    table[numbers] = table[numbers].apply(pd.to_numeric)
    return table.astype(dict.fromkeys(numbers, float)) if table.empty else table
