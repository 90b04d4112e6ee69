"""The paper's baseline: the policy gradient on groups of k responses."""

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
