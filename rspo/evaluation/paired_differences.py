"""Differences of two policies on the same problems, with intervals and p-values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.statistics import Estimate, Part, combine

ROUNDING = 1e-9  # of the difference of two estimates


@dataclass(frozen=True)
class Pair:
    """Outcomes of two policies on the same problems, in the same order.

    titles: of the problems.
    left_out: number of problems that only the first, and only the second, has responses to.
    """

    first: Outcomes
    second: Outcomes
    titles: tuple[str, ...]
    left_out: tuple[int, int] = (0, 0)

    @cached_property
    def responses(self) -> NDArray[np.int64]:
        """The smaller number of responses to each problem, [problems]."""
        return np.minimum(self.first.responses, self.second.responses)


@dataclass(frozen=True)
class Difference:
    """First minus second at one k, on the problems with at least k responses from both.

    interval: of 95 %; NaN for a single problem, and if all problems differ by the same.
    differing: number of problems that differ.
    """

    k: int
    first: float
    second: float
    estimate: Estimate
    interval: tuple[float, float]
    differing: int

    @property
    def p(self) -> float:
        """Two-sided p-value, not adjusted: of Student's t, but at least `_least_p`.

        NaN for a single problem.
        """
        if np.isnan(self.estimate.error):
            return float("nan")
        return max(self._p_of_t, self._least_p)

    @property
    def p_is_least(self) -> bool:
        """Whether too few problems differ for the p-value of Student's t."""
        return self.differing > 0 and self._p_of_t < self._least_p

    @property
    def _p_of_t(self) -> float:
        return min(1.0, 2 * min(self.estimate.p_above(0.0), self.estimate.p_below(0.0)))

    @property
    def _least_p(self) -> float:
        """The smallest p-value of the sign-flip test, 2^(1-m) with m problems that differ.

        That test is exact if each problem's difference is as likely to have either sign. With few
        such problems, t gives smaller values, down to 0 if their differences are equal.
        """
        return float(2.0 ** (1 - max(self.differing, 1)))


def differences(pair: Pair, metric: Metric, ks: Sequence[int]) -> list[Difference]:
    """The paired differences at each k.

    Raises: InputError for a k below 1, or if no problem has k responses from both.
    """
    result = []
    for k in ks:
        most = int(pair.responses.max())
        if not 1 <= k <= most:
            raise InputError(
                f"k = {k}; allowed: 1 to {most}, the largest number of responses that both have "
                "to a problem"
            )
        problems = np.flatnonzero(pair.responses >= k)
        first, second = (side.estimates(metric, k)[problems] for side in (pair.first, pair.second))
        strata = pair.first.select(problems).strata
        if min(strata) == 1:  # its variance is unknown: take all problems as one population
            strata = (len(problems),)
        estimate = combine([Part(first[None], False), Part(-second[None], False)], strata)
        differing = int((np.abs(first - second) > ROUNDING).sum())
        means = float(first.mean()), float(second.mean())
        interval = _interval(estimate, 1.0 if metric == "pass_at_k" else np.inf)
        result.append(Difference(k, *means, estimate, interval, differing))
    return result


def _interval(estimate: Estimate, largest: float) -> tuple[float, float]:
    """The interval of Student's t, within -largest and largest."""
    if not estimate.error > ROUNDING:
        return np.nan, np.nan
    low, high = estimate.interval()
    return max(low, -largest), min(high, largest)
