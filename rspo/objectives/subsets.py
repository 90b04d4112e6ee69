"""What the objectives share: ratios of binomials, and sums over the gaps of sorted rewards."""

import numpy as np
from numpy.typing import NDArray

from rspo.passk import fraction_of_subsets_below

__all__ = ["fraction_of_subsets_below", "from_gaps"]


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
