"""The ratio of binomials that every unbiased estimator of this package uses."""

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
