"""From comparisons to a verdict. The only place with its words.

A claim is supported if every deciding comparison is significantly as it says, contradicted if at
least one is significantly the opposite, and not resolved otherwise. Significant: two-sided,
adjusted by Holm over the claim's deciding comparisons, below `LEVEL`. docs/statistics.md says which
errors that controls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rspo.claims.measure import Measured
from rspo.evaluation.statistics import holm

LEVEL = 0.05
SUPPORTED = "supported"
CONTRADICTED = "contradicted"
NOT_RESOLVED = "not resolved at this size"
NOT_TESTED = "not tested"
FOR, AGAINST, OPEN = "for", "against", "open"


@dataclass(frozen=True)
class Judged:
    """A comparison, its p-value adjusted for its family, and what it says of the claim."""

    measured: Measured
    p_adjusted: float
    outcome: str


def judge(measured: Sequence[Measured]) -> list[Judged]:
    """Outcomes; those that decide are one family of tests, those to be read another."""
    adjusted = [1.0] * len(measured)
    for decides in (True, False):
        family = [i for i, found in enumerate(measured) if found.comparison.decides == decides]
        for i, p in zip(family, holm([measured[i].p for i in family]), strict=True):
            adjusted[i] = float(p)
    return [
        Judged(found, p, _outcome(found, p)) for found, p in zip(measured, adjusted, strict=True)
    ]


def _outcome(measured: Measured, p_adjusted: float) -> str:
    if not p_adjusted < LEVEL:
        return OPEN
    return FOR if measured.p_for < measured.p_against else AGAINST


def verdict(judged: Sequence[Judged]) -> str:
    """Of a claim, from all of its comparisons."""
    outcomes = {found.outcome for found in deciding(judged)}
    if AGAINST in outcomes:
        return CONTRADICTED
    return SUPPORTED if outcomes == {FOR} else NOT_RESOLVED


def weakest(judged: Sequence[Judged]) -> Judged:
    """The deciding comparison that speaks least for the claim."""
    return max(deciding(judged), key=lambda found: found.measured.p_for)


def deciding(judged: Sequence[Judged]) -> list[Judged]:
    return [found for found in judged if found.measured.comparison.decides]
