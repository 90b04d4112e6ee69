"""Unbiased estimates of Pass@k, pass^k and Max@k from n samples of a problem, with variances.

    from rspo.estimators import pass_at_k, pass_at_k_variance
    correct = np.array([0, 3, 16])                  # for 3 problems with n = 16 samples each
    estimate = pass_at_k(16, correct, 4).mean()
    within = np.sqrt(pass_at_k_variance(16, correct, 4).sum()) / len(correct)

`within` is the standard error of the estimate over new samples of the same problems. Samples of
different problems are independent, so the variance of a sum is the sum of the variances.

All functions except `distinct_values` and `max_at_k_with_errors` come from `rspo.passk`, a file
that also works alone. For wrong arguments, every function raises a ValueError. NumPy is the only
other package that this module needs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rspo.core.errors import InputError
from rspo.passk import (
    Floats,
    max_at_k,
    max_at_k_variance,
    mean_with_errors,
    pass_at_k,
    pass_at_k_variance,
    pass_hat_k,
    pass_hat_k_variance,
)

__all__ = [
    "distinct_values",
    "max_at_k",
    "max_at_k_variance",
    "max_at_k_with_errors",
    "mean_with_errors",
    "pass_at_k",
    "pass_at_k_variance",
    "pass_hat_k",
    "pass_hat_k_variance",
]


def distinct_values(n: int, counts: ArrayLike, k: int) -> Floats:
    """Expected number of different values, such as answers, in a random k-subset of n samples.

        sum_a [1 - C(n - n_a, k) / C(n, k)]

    The value a was sampled n_a times. This is the rarefaction of Hurlbert (1971,
    doi:10.2307/1934145); unlike the number of different values among all n samples, its expectation
    does not depend on n.

    Args:
        n: number of samples.
        counts: n_a, of shape [..., values]; 0 for values that were not sampled. A sample without a
            value, such as a response without an answer, only counts in n.
        k: size of the subset.

    Returns: float64 of shape [...].

    Raises: ValueError unless 1 <= k <= n and 0 <= n_a; InputError unless sum_a n_a <= n.
    """
    expected = pass_at_k(n, counts, k)
    if (np.asarray(counts).sum(axis=-1) > n).any():
        raise InputError(f"counts of values must sum to at most n = {n}")
    return np.asarray(expected.sum(axis=-1))


def max_at_k_with_errors(groups: Sequence[ArrayLike], k: int) -> tuple[float, float, float]:
    """The mean of Max@k over problems, with two standard errors.

    Args:
        groups: for each problem, the rewards of its samples.

    Returns: `value`, `error` and `within` of `mean_with_errors`.

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n for all problems.
    """
    mean = mean_with_errors(groups, k, "max_at_k")
    return mean.value, mean.error, mean.within
