"""The paper's baseline: the policy gradient on groups of k responses.

Derivation. The best reward of k independent responses is a sample of Max@k, and the log-probability
of this draw is the sum over its responses, so

    grad Max@k = E[max(R_1, ..., R_k) sum_i grad log pi(y_i)].

A group of n has n/k such draws; their mean gives each response k/n times the best reward of its
draw. RSPO has the same expectation in two steps. The mean over all ways to form the draws, which
never has a larger variance, is `pkpo_s`: (k/n) times the mean best reward of the k-subsets that
contain i. Then RSPO (k >= 2) subtracts the best reward of the k-1 others from that of each subset.
"""

import numpy as np
from numpy.typing import NDArray


def hitchhiking(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (k/n) * max of R over i's group of k (paper, section 3, "Baseline").

    The n responses are split, in their order, into m = n/k groups; all k responses of a group
    get its best reward, so a wrong response gets the same weight as the best one of its group.
    Unbiased for Max@k, and for Pass@k on binary rewards. Needs k to divide n. It is the only
    objective here that depends on the order of the responses.
    """
    n = rewards.shape[-1]
    groups = rewards.reshape(*rewards.shape[:-1], n // k, k)
    best = np.broadcast_to(groups.max(axis=-1, keepdims=True), groups.shape)
    return (k / n) * best.reshape(rewards.shape)
