"""RSPO for Pass@k: binary rewards, c of n responses correct.

Derivation. If a response is correct with probability p, Pass@k = 1 - (1-p)^k. The gradient of p is
E[R grad log pi(y)], so

    grad Pass@k = k (1-p)^(k-1) grad p = k E[(1-p)^(k-1) R grad log pi(y)].

(1-p)^(k-1) is the probability that k-1 other responses are all wrong. Given a correct response i of
the n, the wrong ones are all among the other n-1, and C(n-c, k-1) / C(n-1, k-1) is the fraction of
their (k-1)-subsets in which all are wrong: an unbiased estimate of (1-p)^(k-1) that is independent
of response i. The mean over i of k R_i times this fraction gives the weights of `rspo_pass_at_k`,
which is `rspo.passk.pass_at_k_weights`. The plug-in estimator uses (1 - c/n)^(k-1) instead of the
fraction. This estimate depends on response i.
"""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import pass_at_k_weights as rspo_pass_at_k

__all__ = ["rspo_pass_at_k", "rspo_pass_at_k_plug_in"]


def rspo_pass_at_k_plug_in(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """w_i = (k/n) R_i (1 - c/n)^(k-1), the plug-in estimator for any k; biased (section 4.2).

    The bias comes from estimating (1-p)^(k-1), where p is the probability of a correct response,
    with a sample that includes response i itself. Needs binary rewards; k may exceed n.
    """
    n = rewards.shape[-1]
    return (k / n) * rewards * (1.0 - rewards.mean(axis=-1, keepdims=True)) ** (k - 1)
