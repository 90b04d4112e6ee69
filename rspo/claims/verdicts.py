"""From measured comparisons to a verdict.

A claim is supported if every deciding comparison is significantly as it says, contradicted if at
least one is significantly the opposite, and not resolved otherwise. Significant: the two-sided
p-value, adjusted by Holm over the claim's deciding comparisons, is below `LEVEL`.
docs/statistics.md says which errors this controls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rspo.claims.measure import Measurement
from rspo.evaluation.statistics import LEVEL, holm

SUPPORTED = "supported"
CONTRADICTED = "contradicted"
NOT_RESOLVED = "not resolved at this size"
NOT_TESTED = "not tested"
FOR, AGAINST, OPEN = "for", "against", "open"


@dataclass(frozen=True)
class Result:
    """A comparison with its p-value, adjusted for its family, and its outcome."""

    measurement: Measurement
    p_adjusted: float
    outcome: str


def results_of(measurements: Sequence[Measurement]) -> list[Result]:
    """Results of a claim; deciding comparisons are one family of tests, the others another."""
    adjusted = [1.0] * len(measurements)
    for decides in (True, False):
        family = [i for i, one in enumerate(measurements) if one.comparison.decides == decides]
        for i, p in zip(family, holm([measurements[i].p for i in family]), strict=True):
            adjusted[i] = float(p)
    return [Result(one, p, _outcome(one, p)) for one, p in zip(measurements, adjusted, strict=True)]


def _outcome(measurement: Measurement, p_adjusted: float) -> str:
    if not p_adjusted < LEVEL:
        return OPEN
    return FOR if measurement.p_for < measurement.p_against else AGAINST


def verdict(results: Sequence[Result]) -> str:
    """The verdict on a claim, from all of its results."""
    outcomes = {result.outcome for result in deciding(results)}
    if AGAINST in outcomes:
        return CONTRADICTED
    return SUPPORTED if outcomes == {FOR} else NOT_RESOLVED


def weakest(results: Sequence[Result]) -> Result:
    """The deciding result with the weakest evidence for the claim."""
    return max(deciding(results), key=lambda result: result.measurement.p_for)


def deciding(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.measurement.comparison.decides]
