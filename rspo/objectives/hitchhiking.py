"""The paper's baseline: the policy gradient on draws of k responses.

Derivation. The best reward of k independent responses is a sample of Max@k, and the log-probability
of this draw is the sum over its responses, so

    grad Max@k = E[max(R_1, ..., R_k) sum_i grad log pi(y_i)].

A group of n has n/k such draws; their mean gives each response k/n times the best reward of its
draw. Two steps lead from here to RSPO, and keep the expectation. First, the mean over all ways to
form the draws, which never has a larger variance, is `pkpo_s`: (k/n) times the mean best reward of
the k-subsets that contain i. Then RSPO (k >= 2) subtracts, from the best reward of each of these
subsets, the best reward of its k-1 responses other than i.
"""

import numpy as np
from numpy.typing import NDArray


def hitchhiking(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (k/n) * max of R over the k responses of i's draw (paper, section 3, "Baseline").

    The n responses are split, in their order, into n/k draws. All k responses of a draw get its
    best reward, so a wrong response gets the same weight as the best response of its draw.
    Unbiased for Max@k, and for Pass@k on binary rewards. Needs k to divide n. It is the only
    objective here whose weights depend on the order of the responses.
    """
    n = rewards.shape[-1]
    groups = rewards.reshape(*rewards.shape[:-1], n // k, k)
    best = np.broadcast_to(groups.max(axis=-1, keepdims=True), groups.shape)
    return (k / n) * best.reshape(rewards.shape)
