"""Exponential utilities of the reward. They have no k."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

RS_GRPO_BETA = 2.0
TARGET_KL = math.log(2)


def rs_grpo(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (exp(b R_i) / mean_j exp(b R_j) - 1) / (b n), b = 2 (RS-GRPO, arXiv 2509.24261).

    It maximizes the exponential utility (1/b) log E[exp(b R)]; b = 2 is the default of its authors'
    code. It is biased, because it divides by a mean that contains the response itself; the bias
    vanishes as n grows. The utility depends on the scale of the rewards, and b has the role of
    RSPO's k. Equal rewards, and groups of one, get 0.
    """
    powers = np.exp(RS_GRPO_BETA * (rewards - rewards.max(axis=-1, keepdims=True)))
    relative = powers / powers.mean(axis=-1, keepdims=True) - 1.0
    relative[np.ptp(rewards, axis=-1) == 0] = 0.0  # the mean can be off by a rounding error
    return relative / RS_GRPO_BETA / rewards.shape[-1]


def ttt_entropic(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (exp(b R_i) / mean_{j != i} exp(b R_j) - 1) / n, b from the group itself.

    b solves KL(softmax(b R) || uniform) = ln 2, as `entropic_adaptive_beta` of TTT-Discover
    (github.com/test-time-training/discover). Scale and offset of the rewards change nothing. It
    maximizes the entropic utility at a b that differs between groups, so it is biased, where RSPO
    has one k for all groups. Equal rewards get 0.

    The KL is below the logarithm of n / m with m best responses. Where m >= n/2, no b solves the
    equation, and these are the limits as b grows (their code stops at b = 2^20): each of the
    best gets ((n-1)/(m-1) - 1) / n, each other one -1/n. Needs n >= 3: of two
    responses, the better one would get an infinite weight.
    """
    n = rewards.shape[-1]
    below_best = rewards - rewards.max(axis=-1, keepdims=True)
    spread = -below_best.min(axis=-1, keepdims=True)
    below_best /= np.where(spread > 0, spread, 1.0)
    is_best = below_best == 0
    reachable = 2 * is_best.sum(axis=-1, keepdims=True) < n
    powers = np.where(reachable, np.exp(_solve(below_best) * below_best), is_best)
    others = (powers.sum(axis=-1, keepdims=True) - powers) / (n - 1)
    return (powers / others - 1.0) / n


def _solve(below_best: NDArray[np.float64]) -> NDArray[np.float64]:
    """b of each group by bisection over the exponent of 2; the KL increases with b."""
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
