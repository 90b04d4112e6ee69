"""PKPO's estimators for Max@k (Walder and Karkhanis, arXiv 2505.15201).

A third estimator of that paper, s^(loo-1), is `rspo_max_at_k` for k >= 2, so it is not here.
"""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import fraction_of_subsets_below, from_gaps


def pkpo_s(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = s_i = (k/n) times the mean of the best reward over the k-subsets that contain i.

        w_(i) = [C(i-1, k-1) R_(i) + sum_{j > i} C(j-2, k-2) R_(j)] / C(n, k)

    Unbiased for Max@k, and for Pass@k on 0/1 rewards. Needs k <= n. It has no baseline: wrong
    responses share the reward of right ones, so its variance is higher than RSPO's, and it grows
    when a constant is added to all rewards. With k = n, or with equal rewards, all weights of a
    prompt are equal.
    """
    n = rewards.shape[-1]
    if k == 1:
        return rewards / n
    # Exchanging neighbours in the order, R_(m) for R_(m+1), only changes the best reward of the
    # subsets that contain one of them and k-1 of the m-1 rewards below both.
    above_lowest = from_gaps(rewards, (k / n) * fraction_of_subsets_below(n, k)[:-1])
    # s of the lowest reward: the mean best reward of k-1 of the other n-1 responses, times k/n.
    others = np.sort(rewards, axis=-1)[..., 1:]
    share = (k / n) * (k - 1) / (n - 1) * fraction_of_subsets_below(n - 1, k - 1)
    lowest = (others * share).sum(axis=-1, keepdims=True)
    return lowest + above_lowest


def pkpo_s_loo(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = s_i - k/(n-1) * (PKPO's estimate of Max@k from the other n-1 responses).

    Unbiased for Max@k, and for Pass@k on 0/1 rewards. Needs k < n. If all rewards are equal to R,
    the baseline does not cancel s_i, and each weight is -k R / (n (n-1)). Its variance is higher
    than that of RSPO, which is PKPO's s^(loo-1).
    """
    n = rewards.shape[-1]
    s = pkpo_s(rewards, k)
    max_at_k = s.sum(axis=-1, keepdims=True) / k
    baseline = (max_at_k - s) * n / (n - k)  # max_at_k = s_i + (1 - k/n) baseline_i
    return s - k / (n - 1) * baseline
