"""Objectives of other papers that maximize exponential utilities of the reward. They have no k."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

RS_GRPO_BETA = 2.0  # b of `rs_grpo`
TARGET_KL = math.log(2)  # the KL that `ttt_entropic` aims at, in nats


def rs_grpo(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (exp(b R_i) / mean_j exp(b R_j) - 1) / (b n), b = 2 (RS-GRPO, arXiv 2509.24261).

    It maximizes the exponential utility (1/b) log E[exp(b R)]; b = 2 is the default of its authors'
    code. It is biased, because it divides by a mean that contains the response itself; the bias
    vanishes as n grows. The utility depends on the scale of the rewards, and b has the role of
    RSPO's k. All weights are 0 if the rewards are equal or n is 1.
    """
    # Subtracting the maximum changes no ratio, and keeps the powers from overflowing.
    powers = np.exp(RS_GRPO_BETA * (rewards - rewards.max(axis=-1, keepdims=True)))
    relative = powers / powers.mean(axis=-1, keepdims=True) - 1.0
    relative[np.ptp(rewards, axis=-1) == 0] = 0.0  # the mean can be off by a rounding error
    return relative / RS_GRPO_BETA / rewards.shape[-1]


def ttt_entropic(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (exp(b R_i) / mean_{j != i} exp(b R_j) - 1) / n, with b from the group itself.

    b solves KL(softmax(b R) || uniform) = ln 2, as in `entropic_adaptive_beta` of TTT-Discover
    (github.com/test-time-training/discover). Scale and offset of the rewards change nothing. It
    maximizes the entropic utility at a b that differs between groups, so it is biased. RSPO has one
    k for all groups. All weights are 0 if the rewards are equal.

    If m of n responses have the best reward, the KL is below ln(n/m) for every b. With m >= n/2, no
    b therefore solves the equation, and the weights are their limits as b grows (the code of
    TTT-Discover stops at b = 2^20): ((n-1)/(m-1) - 1) / n for each of the m best responses, and
    -1/n for every other response. Needs n >= 3: of two responses, the better one would get an
    infinite weight.
    """
    n = rewards.shape[-1]
    # Rewards from -1 (lowest) to 0 (best), because scale and offset change nothing.
    below_best = rewards - rewards.max(axis=-1, keepdims=True)
    spread = -below_best.min(axis=-1, keepdims=True)
    below_best /= np.where(spread > 0, spread, 1.0)
    is_best = below_best == 0
    reachable = 2 * is_best.sum(axis=-1, keepdims=True) < n
    powers = np.where(reachable, np.exp(_solve(below_best) * below_best), is_best)
    others = (powers.sum(axis=-1, keepdims=True) - powers) / (n - 1)
    return (powers / others - 1.0) / n


def _solve(below_best: NDArray[np.float64]) -> NDArray[np.float64]:
    """b of each group, (..., 1), by bisection over its logarithm to base 2.

    The KL increases with b. The search is between 2^-4 and 2^60.
    """
    shape = below_best.shape[:-1] + (1,)
    low = np.full(shape, -4.0)
    high = np.full(shape, 60.0)
    for _ in range(60):
        middle = (low + high) / 2
        too_small = _kl(2.0**middle, below_best) < TARGET_KL
        low = np.where(too_small, middle, low)
        high = np.where(too_small, high, middle)
    return 2.0**high


def _kl(b: NDArray[np.float64], below_best: NDArray[np.float64]) -> NDArray[Any]:
    """KL(softmax(b R) || uniform) = mean of b R under the softmax - log of the mean of exp(b R)."""
    logits = b * below_best
    powers = np.exp(logits)
    total = powers.sum(axis=-1, keepdims=True)
    mean = (powers * logits).sum(axis=-1, keepdims=True) / total
    return mean - np.log(total / below_best.shape[-1])
