"""The section Open: which claims were contradicted or left open, and why, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rspo.analysis.results import AGAINST, CONTRADICTED, FOR, NOT_RESOLVED, OPEN, SUPPORTED
from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.evaluation.seeds_needed import (
    MOST,
    error_without_seeds,
    seeds_needed,
    seeds_vary,
    smallest_resolvable,
)
from rspo.report import table_path
from rspo.report.comparisons import ComparisonRow, tested
from rspo.report.rounding import MINUS, p_value, rounded

_OUTCOMES = {
    FOR: "significantly as it says",
    AGAINST: "significantly the opposite",
    OPEN: "open",
}
_ORDER = {CONTRADICTED: 0, NOT_RESOLVED: 1}


@dataclass(frozen=True)
class Unresolved:
    """One claim that is not supported.

    summary: how its comparisons came out; reasons: why, one for each comparison that is not as the
        claim says, those against it first and then by p-value.
    """

    name: str
    title: str
    verdict: str
    summary: str
    reasons: list[str]


def unresolved(experiment: Experiment) -> list[Unresolved]:
    """Every claim that is not supported: contradicted ones first, then in the claims' order.

    Raises: InputError for tables that are missing or lack a column.
    """
    rows = read_csv(table_path(experiment, "claims"), "claim", "title", "verdict")
    comparisons = tested(experiment)
    found = [
        _unresolved(row["claim"], row["title"], row["verdict"], comparisons.get(row["claim"], []))
        for row in rows.to_dict("records")
        if row["verdict"] != SUPPORTED
    ]
    return sorted(found, key=lambda one: _ORDER.get(one.verdict, len(_ORDER)))


def _unresolved(
    name: str, title: str, verdict: str, comparisons: Sequence[ComparisonRow]
) -> Unresolved:
    short, _, why = verdict.partition(": ")
    deciding = [one for one in comparisons if one.decides]
    counts = {way: sum(one.outcome == way for one in deciding) for way in (FOR, OPEN, AGAINST)}
    against = [one for one in deciding if one.outcome == AGAINST]
    still_open = sorted((one for one in deciding if one.outcome == OPEN), key=lambda one: one.p)
    reasons = [_why_against(one) for one in against]
    reasons += [_why_open(one, counts[OPEN], len(deciding)) for one in still_open]
    if not deciding:
        return Unresolved(name, title, short, f"Not tested: {why}." if why else "", [])
    parts = [
        f"{_are(counts[way])} {words}"
        for way, words in _OUTCOMES.items()
        if counts[way] or way == FOR
    ]
    summary = f"Of its {len(deciding)} comparisons, {', '.join(parts)}."
    return Unresolved(name, title, short, summary, reasons)


def _are(count: int) -> str:
    return f"{count or 'none'} {'is' if count == 1 else 'are'}"


def _why_against(one: ComparisonRow) -> str:
    return (
        f"{one.label}: {one.value} {one.unit.name}, significantly the opposite "
        f"(adjusted p {p_value(one.p_adjusted)})."
    )


def _why_open(one: ComparisonRow, tests: int, deciding: int) -> str:
    start = f"{one.label}: {one.value} {one.unit.name}"
    if math.isnan(one.low):
        return f"{start}, without an error: each run gives one value, so it takes several seeds."
    shape = f"{start}; the 95 % interval, {one.interval}, {_shape(one, deciding)}."
    return " ".join(filter(None, [shape, _cure(one, tests)]))


def _shape(one: ComparisonRow, deciding: int) -> str:
    """What an interval includes, and how wide it is."""
    width = one.high - one.low
    wide = f"and is {rounded(width, width / 2)} wide"
    if math.isnan(one.margin):
        limits, bounds = [0.0], "0"
        side = "above" if one.low > 0 else "below"
    else:
        limits, bounds = [-one.margin, one.margin], f"the margin of \u00b1\u00a0{one.margin:g}"
        side = "within" if abs(one.estimate.value) < one.margin else "outside"
    if included := [limit for limit in limits if one.low <= limit <= one.high]:
        equivalent = "" if bounds == "0" else f", an end of {bounds},"
        return f"includes {included[0]:g}{equivalent} {wide}".replace("-", MINUS)
    adjusted = f"p {p_value(one.p)} becomes {p_value(one.p_adjusted).removeprefix('= ')}"
    return (
        f"is {side} {bounds} {wide}, but {adjusted} with Holm's correction for {deciding} "
        "comparisons"
    )


def _cure(one: ComparisonRow, tests: int) -> str:
    """The number of seeds that would resolve it; empty if their error is unknown (one seed)."""
    if math.isnan(one.estimate.error_seeds):
        return ""
    if not seeds_vary(one.estimate):
        return "Seeds differ no more than sampling does: how many would resolve it is unknown."
    within = one.distance > 0 and not math.isnan(one.margin)
    other = one.margin + abs(one.estimate.value) if within else math.inf
    needed = seeds_needed(one.estimate, abs(one.distance), one.seeds, tests, other)
    if needed is None:
        return _no_cure(one, tests)
    way = "as claimed" if one.distance > 0 else "against the claim"
    return f"About {_two_digits(needed)} seeds would resolve it, {way}."


def _two_digits(count: int) -> int:
    """A count, rounded up to two significant digits."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return -(-count // unit) * unit


def _no_cure(one: ComparisonRow, tests: int) -> str:
    """Why no number of seeds would resolve it: the error over problems, or a value near 0."""
    least = smallest_resolvable(error_without_seeds(one.estimate), tests)
    if least <= abs(one.distance):
        target = "0" if math.isnan(one.margin) else "the margin"
        return f"Not even {MOST} seeds would resolve it: the estimate is too close to {target}."
    return (
        "More seeds alone would not resolve it: any number of them resolves only differences above "
        f"{rounded(least, least)} on these {one.problems} problems."
    )
