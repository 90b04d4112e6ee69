"""Objectives of other papers that define advantages. Weights are these advantages divided by n."""

import numpy as np
from numpy.typing import NDArray

from rspo.objectives.risk_neutral import GRPO_EPSILON
from rspo.passk import fraction_of_subsets_below

W_REINFORCE_LAMBDA = 0.1  # lambda of `w_reinforce`


def passk_training(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The analytical advantage of Pass@k Training (arXiv 2508.10751), divided by n.

        correct: (1 - rho) / sigma / n
        wrong:   (1 - rho - C(n-c-1, k-1) / C(n-1, k-1)) / sigma / n

    with c of n responses correct, rho = 1 - C(n-c, k) / C(n, k), and sigma^2 = rho (1 - rho).
    Biased: it divides by a statistic of the same rewards. As n grows, it maximizes
    (2/k) arcsin sqrt(Pass@k), an increasing function of RSPO's target. Needs binary rewards and
    k < n: with k = n, sigma is 0 in every group. All weights are 0 where none is correct or fewer
    than k are wrong.

    The code computes 1 - rho = (n-c)/n C(n-c-1, k-1)/C(n-1, k-1) without the difference from 1,
    which would lose digits.
    """
    n = rewards.shape[-1]
    correct = rewards.sum(axis=-1, keepdims=True).astype(np.int64)
    wrong = n - correct
    # C(n-c-1, k-1) / C(n-1, k-1). The index is clipped for groups without a wrong response, whose
    # `all_wrong` is 0.
    fraction = fraction_of_subsets_below(n, k)[np.maximum(wrong - 1, 0)]
    all_wrong = wrong / n * fraction  # 1 - rho
    deviation = np.sqrt(all_wrong * (1 - all_wrong))
    scale = fraction / np.where(deviation > 0, deviation, 1.0) * (deviation > 0)
    return scale * (rewards - correct / n) / n


def grpo_passk(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (R_(n) - R_(n-1)) / (std + 1e-6) / n for the best response, 0 for every other response.

    This is `grpo_passk` of verl (arXiv 2503.19595) with its default `norm_adv_by_std_in_grpo=True`
    and the sample's standard deviation. It has no k of its own: k is n. Without the division by the
    deviation, it is `rspo_max_at_k` with k = n, divided by n. On 0/1 rewards the deviation is
    1/sqrt(n) wherever a weight is not 0, so it is unbiased for Pass@n up to a constant; for other
    rewards it is biased. All weights are 0 where two responses share the best reward, which happens
    in most groups of a policy that is often right. Needs n >= 2.
    """
    n = rewards.shape[-1]
    ascending = np.sort(rewards, axis=-1)
    best = ascending[..., -1:]
    second = ascending[..., -2:-1]
    advantage = (best - second) / (rewards.std(axis=-1, ddof=1, keepdims=True) + GRPO_EPSILON)
    return np.where(rewards == best, advantage, 0.0) / n


def w_reinforce(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = 0.1/n if correct, -1/n if wrong: W-REINFORCE with lambda = 0.1 (arXiv 2506.01347).

    Unbiased for 1.1 times the probability of a correct response, so it is risk-neutral; it differs
    from policy gradient by a constant baseline, and in its variance. Unlike the weights of RSPO,
    its weights do not depend on the other responses. Needs binary rewards. No weight is ever 0: in
    a group without a correct response, each response gets -1/n.
    """
    return np.where(rewards == 1, W_REINFORCE_LAMBDA, -1.0) / rewards.shape[-1]
