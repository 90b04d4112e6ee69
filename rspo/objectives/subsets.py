"""What the estimators share: ratios of binomials, and sums over the gaps of sorted rewards."""

import numpy as np
from numpy.typing import NDArray


def fraction_of_subsets_below(n: int, k: int) -> NDArray[np.float64]:
    """Fraction of the (k-1)-subsets of n-1 responses that fall into a given m of them.

        fraction[m] = C(m, k-1) / C(n-1, k-1),   m = 0 .. n-1        (1 <= k <= n)

    Computed downwards from fraction[n-1] = 1 as the running product of (m-k+1)/m: neither binomial
    is ever formed (C(4095, 2047) has 1231 digits), so n = 4096 with any k is finite and accurate
    to n rounding errors. Entries below the smallest float64 are 0.

    Returns: float64 of shape [n].
    """
    m = np.arange(n - 1, 0, -1, dtype=np.float64)
    ratios = np.maximum(m - (k - 1), 0.0) / m
    return np.concatenate(([1.0], np.cumprod(ratios)))[::-1]


def from_gaps(rewards: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """w_(i) = sum_{m < i} factors[m-1] * (R_(m+1) - R_(m)), so equal rewards get equal weights.

    Args:
        rewards: [..., n]; R_(1) <= ... <= R_(n) are those of a group in ascending order.
        factors: of shape [n-1].

    Returns: [..., n], in the order of the rewards; 0 for the lowest.
    """
    order = np.argsort(rewards, axis=-1)
    gaps = np.diff(np.take_along_axis(rewards, order, axis=-1), axis=-1)
    gaps *= factors
    ascending = np.zeros_like(rewards)
    np.cumsum(gaps, axis=-1, out=ascending[..., 1:])
    weights = np.empty_like(rewards)
    np.put_along_axis(weights, order, ascending, axis=-1)
    return weights
