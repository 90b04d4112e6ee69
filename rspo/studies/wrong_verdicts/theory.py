"""The expected weight of a false accept.

A response to a prompt is correct with probability p. Each incorrect response is accepted with
probability e, independently, so a response is accepted with probability q = p + (1 - p) e. A weight
depends on the verdicts only. Of n responses, the number c of the other accepted ones is
binomial(n - 1, q), and RSPO's weight is k/n * C(n - 1 - c, k - 1) / C(n - 1, k - 1), so

    E[weight | accepted] = k/n (1 - q)^(k-1) = k/n (1 - p)^(k-1) (1 - e)^(k-1).

The errors multiply the expected gradient of Pass@k by (1 - e)^k and do not turn it; they add noise.
"""

from math import comb

import numpy as np

from rspo.objectives import response_weights


def accepted(success: float, rate: float) -> float:
    """Probability that a response is accepted, with false accepts at a rate."""
    return success + (1 - success) * rate


def expected_weight(objective: str, k: int, n: int, probability: float) -> float:
    """Expected weight of an accepted response, if each response is accepted with a probability.

    Args:
        objective: one whose weights do not depend on the order of the responses.
    """
    return sum(
        comb(n - 1, others)
        * probability**others
        * (1 - probability) ** (n - 1 - others)
        * float(response_weights(np.arange(n) <= others, objective, k)[0])
        for others in range(n)
    )


def share_of_false_accepts(pass_at_k: float, pass_at_k_minus_1: float, rate: float) -> float:
    """RSPO's expected weight of all false accepts, relative to that of all accepted responses.

    Over prompts, sum (1-p) e (1-q)^(k-1) / sum q (1-q)^(k-1); the factor (1-e)^(k-1) cancels, the
    mean of (1-p)^k is 1 - Pass@k, and that of p (1-p)^(k-1) is Pass@k - Pass@(k-1).

    Args:
        pass_at_k, pass_at_k_minus_1: means over the prompts. Policy gradient is k = 1; Pass@0 is 0.
    """
    false = rate * (1 - pass_at_k)
    return false / (pass_at_k - pass_at_k_minus_1 + false)


def false_accept_over_success(
    pass_at_1: float, pass_at_k: float, pass_at_k_minus_1: float
) -> float:
    """RSPO's mean weight of a false accept, relative to that of a true success, over prompts.

    On one prompt both weigh the same. But most incorrect responses are to hard prompts, where the
    weight is largest: sum (1-p)(1-q)^(k-1) / sum (1-p), over sum p (1-q)^(k-1) / sum p. The rate of
    errors cancels.
    """
    false = (1 - pass_at_k) / (1 - pass_at_1)
    return false / ((pass_at_k - pass_at_k_minus_1) / pass_at_1)
