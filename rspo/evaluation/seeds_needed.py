"""How many training seeds would resolve a difference, judging by the errors measured with a few."""

import math

from rspo.evaluation.statistics import LEVEL, Estimate

POWER = 0.8
MOST = 1000


def seeds_needed(
    estimate: Estimate,
    distance: float,
    seeds: int,
    tests: int = 1,
    other_distance: float = math.inf,
) -> int | None:
    """The smallest number of seeds with which a difference is significant with 80 % probability.

    The true difference is taken to be the one measured. With S' instead of S seeds, the variance is

        V(S') = (error^2 - error_seeds^2) + error_seeds^2 S / S'

    because the part over seeds, with its interaction with problems, falls as 1/S', and the rest is
    that of the problems. The degrees of freedom of its estimate grow with S' - 1. The smallest S'
    above S is returned for which

        F(distance / s - c) + F(other_distance / s - c) - 1 >= POWER

    with s = sqrt(V(S')), F the t distribution and c = t(1 - LEVEL / (2 tests)).

    Args:
        estimate: of the difference, from at least two seeds that `seeds_vary`.
        distance: from the estimate to the value it is tested against, in the direction of interest.
        other_distance: to the other end of a margin that the difference is to lie within.
        seeds: of each method, S.
        tests: number of comparisons for which the level is divided (Bonferroni).

    Returns: None if `MOST` seeds do not suffice, and for a distance that is not above 0.
    """
    from scipy.special import stdtr, stdtrit  # here, because they are slow to import

    of_problems = error_without_seeds(estimate) ** 2
    for more in range(seeds + 1, MOST + 1):
        of_seeds = estimate.error_seeds**2 * seeds / more
        variance = of_problems + of_seeds
        degrees = _degrees(estimate, seeds, more, variance, of_seeds)
        critical = stdtrit(degrees, 1 - LEVEL / (2 * tests))
        ends = [one / math.sqrt(variance) - critical for one in (distance, other_distance)]
        if distance > 0 and sum(stdtr(degrees, end) for end in ends) - 1 >= POWER:
            return more
    return None


def seeds_vary(estimate: Estimate) -> bool:
    """Whether the seeds differ by more than sampling explains, so that their variance is known.

    Otherwise the error is that over problems, which includes sampling, and how fast it falls with
    the number of seeds is unknown.
    """
    return not estimate.error <= estimate.error_problems  # NaN without problems


def error_without_seeds(estimate: Estimate) -> float:
    """The standard error that is left with any number of seeds: that over problems."""
    return math.sqrt(max(0.0, estimate.error**2 - estimate.error_seeds**2))


def smallest_resolvable(error: float, tests: int = 1) -> float:
    """The difference that is significant with 80 % probability, its error being known exactly."""
    from scipy.special import ndtri

    return float((ndtri(1 - LEVEL / (2 * tests)) + ndtri(POWER)) * error)


def _degrees(estimate: Estimate, seeds: int, more: int, variance: float, of_seeds: float) -> float:
    """Satterthwaite's degrees of freedom with `more` seeds; the problems' own are neglected.

    With V the variance and V_s its part over seeds, those measured are V^2 / (V_s^2 / f), where f
    is proportional to S - 1.
    """
    if of_seeds == 0:
        return estimate.degrees
    measured = estimate.degrees * estimate.error_seeds**4 / estimate.error**4
    return measured * (more - 1) / (seeds - 1) * variance**2 / of_seeds**2
