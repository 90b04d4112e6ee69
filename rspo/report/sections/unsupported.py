"""Why claims are contradicted or left open, in words."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd
from scipy import stats

from rspo.claims.verdicts import AGAINST, LEVEL, SUPPORTED
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.tables import read_csv
from rspo.report import table_path
from rspo.report.page_table import with_error

Row = Mapping[str, str]
_POWER = 0.8
_MOST_SEEDS = 100  # a larger number is no advice


def unsupported(experiment: Experiment) -> list[tuple[str, str, str]]:
    """(claim, title, why) of each claim that is not supported.

    Raises: InputError for tables that are missing or lack a column.
    """
    claims = read_csv(table_path(experiment, "claims"), "claim", "title", "verdict", "estimate")
    comparisons = read_csv(table_path(experiment, "claim_comparisons"), "claim", empty=True)
    seeds = experiment.config.seeds
    return [
        (row["claim"], row["title"], " ".join(_why(row, comparisons, seeds)))
        for row in claims.to_dict("records")
        if row["verdict"] != SUPPORTED
    ]


def _why(claim: Row, comparisons: pd.DataFrame, seeds: int) -> Iterator[str]:
    verdict, _, reason = claim["verdict"].partition(": ")
    if reason:
        yield f"{verdict.capitalize()}: {reason}."
        return
    own = comparisons[(comparisons["claim"] == claim["claim"]) & (comparisons["decides"] == "yes")]
    outcomes = own["outcome"].value_counts()
    yield (
        f"{outcomes.get('for', 0)} of its {len(own)} comparisons are as it says, "
        f"{outcomes.get(AGAINST, 0)} the opposite, {outcomes.get('open', 0)} open."
    )
    weakest = own[own["estimate"] == claim["estimate"]]
    if len(weakest):
        yield from _of_comparison(weakest.iloc[0].to_dict(), seeds, len(own))


def _of_comparison(row: Row, seeds: int, comparisons: int) -> Iterator[str]:
    """Args: comparisons: number of the claim's deciding comparisons."""
    if row["error"] == "":
        return
    value, low, high, error = (float(row[key]) for key in ("estimate", "low", "high", "error"))
    shown, half = with_error(value, (high - low) / 2)
    yield f"The weakest, {row['comparison']} ({_place(row)}), is {shown} ± {half}"
    if row["margin"]:
        yield f"(95 % interval), which does not lie within ±{row['margin']}."
        return
    if row["outcome"] == AGAINST:
        yield "(95 % interval), below zero."
        return
    if low > 0 or high < 0:
        yield "(95 % interval); after Holm's correction for all comparisons it is not significant."
        return
    yield "(95 % interval), which includes zero."
    yield _seeds_needed(row, value, error, seeds, comparisons)


def _place(row: Row) -> str:
    if not row["metric"]:
        return "training logs"
    problems = "all problems" if row["benchmark"] == POOLED else row["benchmark"]
    return f"k = {', '.join(row['k'].split())}; {problems}"


def _seeds_needed(row: Row, value: float, error: float, seeds: int, comparisons: int) -> str:
    """How many seeds would resolve an effect of the estimated size with a probability of 80 %.

    The level is divided by the number of comparisons, as Holm's correction does for the first one.
    """
    if value <= 0:
        return "The estimate is not above zero."
    if seeds == 1:
        return "With one training seed, its error leaves out the variance of training."
    of_seeds = float(row["error_seeds"] or "nan")
    power = stats.norm.ppf(1 - LEVEL / 2 / comparisons) + stats.norm.ppf(_POWER)
    needed = value / power
    of_problems = math.sqrt(max(0.0, error**2 - of_seeds**2))
    if math.isnan(of_seeds) or needed <= of_problems:
        return "More seeds alone would not resolve an effect of this size: it needs more problems."
    count = math.ceil(seeds * of_seeds**2 / (needed**2 - of_problems**2))
    if count > _MOST_SEEDS:
        return f"To find an effect of this size, more than {_MOST_SEEDS} seeds would be needed."
    seeds = max(count, seeds + 1)
    return f"To find an effect of this size with 80 % power, about {seeds} seeds would be needed."
