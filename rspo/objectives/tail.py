"""TailRL and MaxRL, which maximize Pass@j or Max@j of all j at once, weighted by 1/j.

They have no k.
"""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import from_gaps


def tailrl(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_(i) = sum_{j <= i} (R_(j) - R_(j-1)) / (n-j+1), R_(0) = 0 (TailRL, arXiv 2609.02987).

    It is the sum over j <= n of RSPO's weights for Max@j, each divided by j, so it is unbiased for
    sum_{j <= n} Max@j / j. On 0/1 rewards, each of c correct responses gets 1/c, as in
    `maxrl_uncentred`. It has no baseline: equal rewards R get R/n. The target depends on n: with
    larger groups, hard prompts weigh more.
    """
    n = rewards.shape[-1]
    lowest = rewards.min(axis=-1, keepdims=True) / n
    return lowest + from_gaps(rewards, 1.0 / np.arange(n - 1, 0, -1))


def tailrl_centred(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """`tailrl` minus its mean over the group, max(R)/n.

    Unbiased for sum_{j < n} Max@j / j: the mean contains the response itself, which removes the
    term of j = n. RSPO maximizes one of these terms. Weights sum to 0. All weights are 0 if the
    rewards are equal or n is 1.
    """
    n = rewards.shape[-1]
    above_lowest = from_gaps(rewards, 1.0 / np.arange(n - 1, 0, -1))
    return above_lowest - np.ptp(rewards, axis=-1, keepdims=True) / n


def maxrl_uncentred(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = R_i / c, with c correct responses; 0 if c = 0 (MaxRL, arXiv 2602.02710).

    It is the sum over j <= n of RSPO's weights for Pass@j, each divided by j, so it is unbiased for
    sum_{j <= n} Pass@j / j. Up to a constant, these are the first n terms of a series for log p,
    with p the probability of a correct response. Needs binary rewards. If all responses are
    correct, each gets 1/n.
    """
    correct = rewards.sum(axis=-1, keepdims=True)
    return rewards / np.maximum(correct, 1.0)


def maxrl(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (R_i - mean) / (n mean) = R_i/c - 1/n; 0 if c = 0 (MaxRL, arXiv 2602.02710).

    c is the number of correct responses. Unbiased for sum_{j < n} Pass@j / j; RSPO maximizes one of
    these terms. Needs binary rewards. All weights are 0 if no response or every response is
    correct, so they always are for n = 1.
    """
    baseline = (rewards.max(axis=-1, keepdims=True) > 0) / rewards.shape[-1]
    return maxrl_uncentred(rewards, k) - baseline
