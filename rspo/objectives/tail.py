"""TailRL and MaxRL: every k at once, Pass@j or Max@j weighted by 1/j. They have no k."""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import from_gaps


def tailrl(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_(i) = sum_{j <= i} (R_(j) - R_(j-1)) / (n-j+1), R_(0) = 0 (TailRL, arXiv 2609.02987).

    It is the sum over j <= n of RSPO's weights for Max@j, each divided by j, and so unbiased for
    sum_{j <= n} Max@j / j. On 0/1 rewards each of c correct responses gets 1/c, as in
    `maxrl_uncentred`. It has no baseline: equal rewards R get R/n. The target depends on n: with
    larger groups, hard prompts weigh more.
    """
    n = rewards.shape[-1]
    lowest = rewards.min(axis=-1, keepdims=True) / n
    return lowest + from_gaps(rewards, 1.0 / np.arange(n - 1, 0, -1))


def tailrl_centred(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """`tailrl` less its mean over the group, max(R)/n.

    Unbiased for sum_{j < n} Max@j / j: the mean contains the response itself, which costs the last
    term. RSPO maximizes one of these terms. Weights sum to 0. Equal rewards get the weight 0; so
    does a group of one.
    """
    n = rewards.shape[-1]
    above_lowest = from_gaps(rewards, 1.0 / np.arange(n - 1, 0, -1))
    return above_lowest - np.ptp(rewards, axis=-1, keepdims=True) / n


def maxrl_uncentred(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = R_i / c, with c correct responses; 0 if none is (MaxRL, arXiv 2602.02710).

    Unbiased for sum_{j <= n} Pass@j / j, the first n terms of the series of log p + const: the sum
    over j of RSPO's weights for Pass@j, each divided by j. Needs binary rewards. Where all are
    correct, each gets 1/n.
    """
    correct = rewards.sum(axis=-1, keepdims=True)
    return rewards / np.maximum(correct, 1.0)


def maxrl(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (R_i - mean) / (n mean) = R_i/c - 1/n; 0 if none is correct (MaxRL, arXiv 2602.02710).

    Unbiased for sum_{j < n} Pass@j / j; RSPO maximizes one of these terms. Needs binary rewards.
    All weights are 0 where none or all are correct, and so for n = 1.
    """
    baseline = (rewards.max(axis=-1, keepdims=True) > 0) / rewards.shape[-1]
    return maxrl_uncentred(rewards, k) - baseline
