"""RSPO for Max@k: any finite rewards, ties and negative ones included.

Derivation. Max@k is the expected best reward of k independent responses. The gradient of an
expectation has a term for each response, and the k terms are equal by symmetry:

    grad Max@k = k E[max(R_1, ..., R_k) grad log pi(y_1)].

Let S be the other k-1 responses, and max(S) their best reward for k >= 2. max(S) is independent of
y_1, and E[grad log pi(y_1)] = 0, so max(S) can be subtracted:

    grad Max@k = k E[(max(R_1, max(S)) - max(S)) grad log pi(y_1)].

Each response i of a group of n, with each (k-1)-subset S of the other responses, is such a draw.
The mean over all draws gives response i the weight k/n times the mean over S of
max(S + i) - max(S), where S + i has response i, too: the marginal contribution of i. It is
R_i - max(S) if all rewards of S are below R_i, and 0 otherwise. Let c_lt be the number of rewards
below R_i, and R_(1) <= R_(2) <= ... the rewards in ascending order. Of the C(c_lt, k-1) subsets S
of these lower rewards, C(j-1, k-2) have R_(j) as their best. This gives the formula of
`rspo.passk.max_at_k_weights`, which this module calls `rspo_max_at_k`.

The plug-in estimator replaces fractions of subsets by powers of F_i, the fraction of the responses
whose reward is <= R_i.
"""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import max_at_k_weights as rspo_max_at_k

__all__ = ["rspo_max_at_k", "rspo_max_at_k_plug_in", "rspo_max_at_k_ranked"]


def rspo_max_at_k_ranked(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The Max@k estimator of the main text (theorem 4.4): positions i-1 in place of counts c_lt.

        w_(i) = (k/n)/C(n-1,k-1) * [R_(i) C(i-1, k-1) - sum_{j < i} R_(j) C(j-1, k-2)]

    The paper presents it as an approximation for continuous rewards. It is exact: by the
    hockey-stick identity, the bracket is sum_{j < i} (R_(i) - R_(j)) C(j-1, k-2), whose tied terms
    vanish, so it equals `rspo_max_at_k` on every sample, ties included. One function computes
    both; tests compare it with each formula as printed, in exact rational arithmetic.
    """
    weights: NDArray[np.float64] = rspo_max_at_k(rewards, k)
    return weights


def rspo_max_at_k_plug_in(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The plug-in estimator for any k; biased (paper, section 4.3):

        w_i = (k/n) [R_i F_i^(k-1) - (k-1)/n sum_j 1(R_j < R_i) R_j F_j^(k-2)]

    with F_i the fraction of the n responses whose reward is <= R_i. k may exceed n. Not for binary
    rewards: there F = 1 for every correct response, so the weight is k R_i / n, which is
    risk-neutral. Where rewards other than 0 tie, the bias does not vanish with n.
    """
    n = rewards.shape[-1]
    order = np.argsort(rewards, axis=-1, kind="stable")
    ascending = np.take_along_axis(rewards, order, axis=-1)
    # Equal rewards form a run. For each reward, `below` is the position where its run begins, which
    # is the number of lower rewards. `up_to` is where its run ends, the number of rewards <= it.
    position = np.arange(n)
    is_first = np.concatenate(
        [np.ones_like(ascending[..., :1], dtype=bool), np.diff(ascending, axis=-1) > 0], axis=-1
    )
    below = np.maximum.accumulate(np.where(is_first, position, 0), axis=-1)
    is_last = np.roll(is_first, -1, axis=-1)
    up_to = np.minimum.accumulate(np.where(is_last, position, n)[..., ::-1], axis=-1)[..., ::-1] + 1
    fraction_up_to = up_to / n
    # The sum over the rewards below each reward is a prefix sum in ascending order.
    terms = ascending * fraction_up_to ** float(k - 2)
    sums = np.concatenate([np.zeros_like(terms[..., :1]), np.cumsum(terms, axis=-1)], axis=-1)
    sum_below = np.take_along_axis(sums, below, axis=-1)
    sorted_weights = ascending * fraction_up_to ** (k - 1) - (k - 1) / n * sum_below
    weights = np.empty_like(rewards)
    np.put_along_axis(weights, order, (k / n) * sorted_weights, axis=-1)
    return weights
