"""Centred estimators for the order statistics of k rewards: MaxPO and OrderGrad.

The order statistics R_(1:k) <= ... <= R_(k:k) are the rewards of k responses in ascending order. An
objective maximizes the expectation of a statistic L = sum_j a_j R_(j:k) with coefficients
a_1 .. a_k. Let q_i be the mean of L over the k-subsets that contain response i, and v_-i its mean
over those that do not. Then

    w_i = (k/n) (q_i - v_-i) = (s_i - mean s) / (1 - k/n),     s_i = (k/n) q_i,     k < n.

Weights sum to 0, equal rewards get equal weights, and shifting all rewards changes nothing. To add
another statistic, call `order_statistic` with its coefficients.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from rspo.passk import fraction_of_subsets_below, from_gaps

Floats = NDArray[np.float64]
Weights = Callable[[Floats, int], Floats]  # a weight function, as `Objective.function`


def maxpo(rewards: Floats, k: int) -> Floats:
    """w_i = (k/n) (mean best reward of the k-subsets with i - of those without i).

    Unbiased for Max@k, and for Pass@k on 0/1 rewards (MaxPO, arXiv 2606.06080; ReMax of OrderGrad,
    arXiv 2606.06096). Needs k < n. Where more than n-k responses share the best reward, or all
    rewards are equal, all weights of the prompt are 0. The baseline of response i is the best of k
    other responses. RSPO uses the best of k-1 other responses, so its weights are >= 0 for k >= 2.
    """
    n = rewards.shape[-1]
    return _centred(from_gaps(rewards, (k / n) * fraction_of_subsets_below(n, k)[:-1]), k)


def order_statistic(coefficients: Callable[[int], Sequence[float]]) -> Weights:
    """Make the weight function that is unbiased for E[sum_j a_j R_(j:k)]. It needs k < n.

    Args:
        coefficients: takes k and returns a_1 .. a_k, from the lowest of k rewards to the highest.
    """

    def weights(rewards: Floats, k: int) -> Floats:
        n = rewards.shape[-1]
        return _centred(from_gaps(rewards, _gap_factors(tuple(coefficients(k)), n)), k)

    return weights


def top_half(k: int) -> list[float]:
    """Coefficients of the mean of the best ceil(k/2) rewards."""
    return bottom_half(k)[::-1]


def bottom_half(k: int) -> list[float]:
    """Coefficients of the mean of the lowest ceil(k/2) rewards, the CVaR at level 1/2."""
    taken = (k + 1) // 2
    return [1 / taken] * taken + [0.0] * (k - taken)


def median(k: int) -> list[float]:
    """Coefficients of the middle reward, or of the mean of the two middle rewards if k is even."""
    middle = {(k - 1) // 2, k // 2}
    return [1 / len(middle) if j in middle else 0.0 for j in range(k)]


def ordergrad_top_half(rewards: Floats, k: int) -> Floats:
    """`order_statistic(top_half)` of OrderGrad (arXiv 2606.06096); needs k < n.

    k = 1 is the mean reward, k = 2 is `maxpo`. For k >= 3 it is less risk-seeking than Max@k, which
    RSPO maximizes. Equal rewards get the weight 0.
    """
    return order_statistic(top_half)(rewards, k)


def ordergrad_median(rewards: Floats, k: int) -> Floats:
    """`order_statistic(median)` of OrderGrad (arXiv 2606.06096); needs k < n.

    For k >= 3 its slope on 0/1 rewards is 0 at p = 0 and at p = 1, so hard prompts, which RSPO
    favours, are hardly learned. Equal rewards get the weight 0.
    """
    return order_statistic(median)(rewards, k)


def ordergrad_bottom_half(rewards: Floats, k: int) -> Floats:
    """`order_statistic(bottom_half)`, CVaR at level 1/2, of OrderGrad (arXiv 2606.06096); k < n.

    It is risk-averse, the opposite of RSPO: for k >= 2 its slope on 0/1 rewards is 0 at p = 0, so
    hard prompts are hardly learned. Equal rewards get the weight 0.
    """
    return order_statistic(bottom_half)(rewards, k)


def _centred(above_lowest: Floats, k: int) -> Floats:
    """The weights (s_i - mean s) / (1 - k/n).

    Args:
        above_lowest: s_i minus the s of the lowest reward, [..., n]. The offset cancels.
    """
    n = above_lowest.shape[-1]
    centred: Floats = above_lowest - above_lowest.mean(axis=-1, keepdims=True)
    return centred / (1 - k / n)


@lru_cache(maxsize=64)
def _gap_factors(coefficients: tuple[float, ...], n: int) -> Floats:
    """How much s rises per unit of the reward between neighbours in ascending order, [n-1].

    It is (s_(m+1) - s_(m)) / (R_(m+1) - R_(m)) for m = 1 .. n-1. Exchanging R_(m) for R_(m+1) only
    changes L of the subsets that contain one of the two. If t of the other k-1 members are among
    the m-1 rewards below both, the exchanged reward has rank t+1 in the subset, so the factor is

        (k/n) sum_t a_{t+1} C(m-1, t) C(n-m-1, k-1-t) / C(n-1, k-1)
    """
    k = len(coefficients)
    log_factorial = np.array([lgamma(i + 1) for i in range(n)])
    below = np.arange(n - 1)  # m - 1 rewards below both neighbours
    above = below[::-1]  # n - m - 1 rewards above both
    # The binomials as logarithms of factorials, because they overflow for large n.
    total = log_factorial[n - 1] - log_factorial[k - 1] - log_factorial[n - k]
    factors = np.zeros(n - 1)
    for t, coefficient in enumerate(coefficients):
        if coefficient == 0:
            continue
        m = np.flatnonzero((below >= t) & (above >= k - 1 - t))
        log_count = log_factorial[below[m]] - log_factorial[t] - log_factorial[below[m] - t]
        log_count += log_factorial[above[m]] - log_factorial[k - 1 - t]
        log_count -= log_factorial[above[m] - (k - 1 - t)]
        factors[m] += coefficient * np.exp(log_count - total)
    factors *= k / n
    factors.setflags(write=False)  # the cache returns this array again
    return factors
