"""Unbiased estimates of Pass@k, pass^k and Max@k from n samples of a problem, with variances.

    from rspo.estimators import pass_at_k, pass_at_k_variance
    correct = np.array([0, 3, 16])                  # of n = 16 samples of each of 3 problems
    estimate = pass_at_k(16, correct, 4).mean()
    error = np.sqrt(pass_at_k_variance(16, correct, 4).sum()) / len(correct)

The error is the standard error over new samples of the same problems. Samples of different problems
are independent, so the variance of a sum is the sum of their variances.

Pass@k is from Chen et al. (arXiv 2107.03374), pass^k from Yao et al. (arXiv 2406.12045). No
function computes a binomial, so results for n = 1024 and any k are finite and accurate to n
rounding errors. This module needs numpy only.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rspo.core.errors import InputError
from rspo.objectives.subsets import fraction_of_subsets_below

Floats = NDArray[np.float64]


def pass_at_k(n: int, c: ArrayLike, k: int) -> Floats:
    """Probability that a random k-subset of n samples contains a correct one.

        Pass@k = 1 - C(n-c, k) / C(n, k)

    Args:
        c: number of correct samples, integers of any shape.

    Returns: float64 of the same shape.

    Raises: InputError unless 1 <= k <= n and 0 <= c <= n.
    """
    wrong = n - _counts(n, c)
    _check(n, k)
    return 1.0 - fraction_of_subsets_below(n + 1, k + 1)[wrong]


def pass_at_k_variance(n: int, c: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `pass_at_k`, over new samples of the same problem.

        (C(n-c, k) / C(n, k))^2 - C(n-c, 2k) / C(n, 2k),    2k <= n

    With success probability p, the second term is an unbiased estimate of (1-p)^(2k). The ratio of
    the terms is the product over i < k of 1 - ck / ((n-k-i)(n-c-i)); summing its logarithms avoids
    the cancellation of two numbers near 1.

    Returns: float64 of the shape of c; NaN where 2k > n, when no unbiased estimate exists.

    Raises: InputError unless 1 <= k <= n and 0 <= c <= n.
    """
    counts = _counts(n, c)
    _check(n, k)
    if 2 * k > n:
        return np.full(counts.shape, np.nan)
    failed = fraction_of_subsets_below(n + 1, k + 1)[n - counts]
    i = np.arange(k, dtype=np.float64)
    right = counts[..., None].astype(np.float64)
    # For n-c-i <= 0 the second term is 0: clipping sets the ratio to 0.
    removed = right * k / ((n - k - i) * np.maximum(n - right - i, 1.0))
    with np.errstate(divide="ignore"):  # log 0 = -inf is that ratio
        logarithm = np.log1p(-np.minimum(removed, 1.0)).sum(axis=-1)
    return failed**2 * -np.expm1(logarithm)


def pass_hat_k(n: int, c: ArrayLike, k: int) -> Floats:
    """Probability that all of a random k-subset of n samples are correct.

        pass^k = C(c, k) / C(n, k)

    Args:
        c: number of correct samples, integers of any shape.

    Returns: float64 of the same shape.

    Raises: InputError unless 1 <= k <= n and 0 <= c <= n.
    """
    correct = _counts(n, c)
    _check(n, k)
    return fraction_of_subsets_below(n + 1, k + 1)[correct]


def pass_hat_k_variance(n: int, c: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `pass_hat_k`, over new samples of the same problem.

        (C(c, k) / C(n, k))^2 - C(c, 2k) / C(n, 2k),    2k <= n

    This is `pass_at_k_variance` with right and wrong exchanged.

    Returns: float64 of the shape of c; NaN where 2k > n, when no unbiased estimate exists.

    Raises: InputError unless 1 <= k <= n and 0 <= c <= n.
    """
    return pass_at_k_variance(n, n - _counts(n, c), k)


def distinct_values(n: int, counts: ArrayLike, k: int) -> Floats:
    """Expected number of different values in a random k-subset of n samples.

        sum_a 1 - C(n - n_a, k) / C(n, k)

    n_a is how often value a was sampled. This is the rarefaction of Hurlbert (1971,
    doi:10.2307/1934145); unlike the number of different values among all n samples, its expectation
    does not depend on n.

    Args:
        counts: n_a, of shape [..., values]; 0 for values that were not sampled. Samples without a
            value, such as responses without an answer, count in n only.

    Returns: float64 of shape [...].

    Raises: InputError unless 1 <= k <= n, 0 <= n_a and sum_a n_a <= n.
    """
    expected = pass_at_k(n, counts, k)
    if (np.asarray(counts).sum(axis=-1) > n).any():
        raise InputError(f"counts of values must sum to at most n = {n}")
    return np.asarray(expected.sum(axis=-1))


def max_at_k(rewards: ArrayLike, k: int) -> Floats:
    """Expected best reward of a random k-subset of n samples.

        Max@k = sum_{i=k}^{n} R_(i) C(i-1, k-1) / C(n, k),    R_(1) <= ... <= R_(n)

    Args:
        rewards: finite, of shape [..., n].

    Returns: float64 of shape [...].

    Raises: InputError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    ascending = _ascending(rewards)
    n = ascending.shape[-1]
    _check(n, k)
    # einsum, not @: BLAS may round differently with another machine or number of threads.
    return np.asarray(np.einsum("...i,i->...", ascending, _best_of(n, k)))


def max_at_k_variance(rewards: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `max_at_k`, over new samples of the same problem.

        (Max@k)^2 - sum_{j<i} 2 R_(i) R_(j) C(j-1, k-1) C(i-1-k, k-1) / (C(n, k) C(n-k, k))

    The second term averages max(S) max(T) over the ordered pairs of disjoint k-subsets. S and T are
    independent, so it is an unbiased estimate of E[Max@k]^2. If the smaller maximum has rank j and
    the larger has rank i, the first subset has its other k-1 ranks below j, and the second has its
    other k-1 ranks below i and outside the first. On binary rewards the result equals
    `pass_at_k_variance`. The code subtracts Max@k from all rewards, which changes neither side and
    makes the first term 0.

    Args:
        rewards: finite, of shape [..., n].

    Returns: float64 of shape [...], never negative; NaN if 2k > n.

    Raises: InputError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    ascending = _ascending(rewards)
    n = ascending.shape[-1]
    _check(n, k)
    if 2 * k > n:
        return np.full(ascending.shape[:-1], np.nan)
    centred = ascending - max_at_k(ascending, k)[..., None]
    smaller = np.cumsum(centred * _best_of(n, k), axis=-1)  # [..., j]: maxima of rank <= j
    larger = centred[..., k:] * _best_of(n - k, k)
    disjoint = 2.0 * np.einsum("...i,...i->...", larger, smaller[..., k - 1 : -1])
    return np.maximum(-disjoint, 0.0)


def max_at_k_with_errors(groups: Sequence[ArrayLike], k: int) -> tuple[float, float, float]:
    """The mean of `max_at_k` over problems, its standard error, and the part of it from sampling.

        error^2 = var(Max@k) / P,    within^2 = sum(max_at_k_variance) / P^2

    The error contains that of sampling, so it is at least `within`.

    Args:
        groups: for each of P problems, the rewards of its samples, [n]; n may differ.

    Returns: mean, error, within. The error is NaN with one problem; `within` if 2k > n for one.

    Raises: InputError for NaN or infinite rewards, or unless 1 <= k <= n for all problems.
    """
    values = np.array([max_at_k(group, k) for group in groups])
    variance = np.sum([max_at_k_variance(group, k) for group in groups])
    within = float(np.sqrt(variance)) / len(values)
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return float(values.mean()), within if within > error else error, within


def _best_of(n: int, k: int) -> Floats:
    """Probability of each rank i to be the best of a random k-subset: C(i-1, k-1) / C(n, k)."""
    return fraction_of_subsets_below(n, k) * (k / n)


def _ascending(rewards: ArrayLike) -> Floats:
    given = np.asarray(rewards, dtype=np.float64)
    if given.ndim == 0:
        raise InputError("rewards need a last axis of n samples; got a single number")
    values = np.sort(given, axis=-1)
    if not np.isfinite(values).all():
        raise InputError("rewards must be finite; got NaN or infinity")
    return values


def _counts(n: int, c: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(c)
    if counts.dtype.kind == "b" and n > 1:
        raise InputError(f"counts are true or false; with n = {n}, sum them over the samples")
    if counts.dtype.kind not in "iub" or ((counts < 0) | (counts > n)).any():
        raise InputError(f"counts of correct samples must be integers from 0 to n = {n}")
    return counts.astype(np.int64)


def _check(n: int, k: int) -> None:
    for name, value in (("k", k), ("n", n)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise InputError(f"{name} must be an integer, got {value!r}")
    if not 1 <= k <= n:
        raise InputError(f"k = {k} with n = {n} samples; allowed: 1 <= k <= n")
