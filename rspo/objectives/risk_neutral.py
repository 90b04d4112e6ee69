"""Policy gradient, which maximizes the average reward, and GRPO. Neither has a k."""

import numpy as np
from numpy.typing import NDArray

GRPO_EPSILON = 1e-6  # added to the standard deviation, so that nothing is divided by 0


def policy_gradient(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = R_i / n: unbiased for E[R], which is Max@1 (paper, section 3).

    Derivation. grad pi(y) = pi(y) grad log pi(y), so grad E[R] = sum_y R(y) grad pi(y) =
    E[R grad log pi(y)], and the mean over n responses estimates it. RSPO with k = 1 is the same.
    On 0/1 rewards it maximizes Pass@1, so hard and easy prompts count the same. It subtracts no
    control variate: adding a constant to the rewards adds variance.
    """
    return rewards / rewards.shape[-1]


def grpo(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (R_i - mean) / (std + 1e-6) / n, std with n-1 in its denominator (arXiv 2402.03300).

    The standard deviation is that of a sample, with n-1, as in verl and TRL; the paper of GRPO does
    not say which. It does not maximize the average reward over prompts, because the weights are
    divided by a statistic of the same rewards. Needs n >= 2. On 0/1 rewards, what it maximizes
    approaches 2 arcsin sqrt(p) as n grows, with p the probability of a correct response: prompts
    near p = 0 and prompts near p = 1 count more, whereas RSPO favours hard prompts only.
    """
    n = rewards.shape[-1]
    centred = rewards - rewards.mean(axis=-1, keepdims=True)
    # Equal rewards have weight 0. Their mean can be off by a rounding error, and dividing by an
    # equally small deviation would enlarge it.
    centred[np.ptp(rewards, axis=-1) == 0] = 0.0
    return centred / (rewards.std(axis=-1, ddof=1, keepdims=True) + GRPO_EPSILON) / n
