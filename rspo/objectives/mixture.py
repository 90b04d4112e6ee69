"""What weights maximize, as a sum of multiples of Pass@j, and in words. `diagnose` calls it."""

import math

import numpy as np

from rspo.passk import Slope, Weights, equal

MOST_MIXED = 20  # largest n: the rounding errors of `mixture_of` grow with n, to 1e-8 at 20
MOST_TERMS = 4  # largest number of terms of a mixture in words
# Distance from 1 to the next number of each dtype.
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def rounding_of(weights: Weights) -> float:
    """The largest number that is a rounding error of weights of this size and precision."""
    return max(1e-12, 4 * EPSILON[weights.precision]) * float(abs(weights.values).max())


def mixture_of(slope: Slope) -> dict[int, float] | None:
    """j -> b_j of F = sum_j b_j Pass@j, without terms whose b_j is 0.

    The coefficients a_m of the slope, read backwards as a_(n-1-t) over t, have Newton's forward
    differences: b_j is C(n-1, j-1)/j times the difference of order j-1 at t = 0. The result is None
    if n > 20, if rounding errors are too large, or if F has more than two terms of which one is
    below 0, because such a sum says little.
    """
    n = len(slope.coefficients)
    largest = float(abs(slope.coefficients).max())
    epsilon = EPSILON[slope.precision]
    if n > MOST_MIXED:
        return None
    if largest <= slope.tolerance * slope.scale:
        return {}
    differences = slope.coefficients[::-1]  # in the loop, these are the differences of order j - 1
    mixture = {}
    for j in range(1, n + 1):
        share = math.comb(n - 1, j - 1) / j
        # A difference of order j-1 adds 2^(j-1) values, counted with their multiplicity.
        error = share * 2 ** (j - 1) * 4 * epsilon * max(slope.scale, largest)
        if error > 0.005 * largest:
            return None
        b = share * float(differences[0])
        if abs(b) > max(1e-6 * largest, error):
            mixture[j] = b
        differences = np.diff(differences)
    return mixture if len(mixture) <= 2 or min(mixture.values()) > 0 else None


def target_of(slope: Slope) -> str:
    """What weights with this slope maximize, in words."""
    fits = slope.fits()
    if len(fits) > 1:
        return f"undecided in {slope.precision}: fits Pass@{fits[0]} and Pass@{fits[-1]}"
    if fits:
        if equal(slope.factor, 1.0, slope.tolerance):
            return f"unbiased for Pass@{fits[0]}"
        return f"unbiased for {slope.factor:.4g} times Pass@{fits[0]}"
    mixture = mixture_of(slope)
    if mixture is None:
        return "not unbiased for any Pass@k"
    if not mixture:
        return "maximizes nothing, F is 0"
    terms = [f"{b:.3g} Pass@{j}" for j, b in mixture.items()]
    if len(terms) > MOST_TERMS:
        terms[3:-1] = ["..."]  # keeps the first three terms and the last one
    return f"maximizes {' + '.join(terms).replace('+ -', '- ')}"
