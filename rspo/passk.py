"""Pass@k, pass^k and Max@k from n samples of a problem, in one file that needs NumPy only.

Copy this file anywhere, or use it as `rspo.passk` of the package RSPO (arXiv 2508.01174). Both are
the same: `rspo.estimators`, the objectives and the checks of the package import their functions
from here, and this file imports nothing of the package. Needs Python 3.10 and NumPy 1.23, or newer.

    estimates     pass_at_k, pass_hat_k, max_at_k and their variances; mean_with_errors
    comparisons   paired_difference of two models; crossing, the k at which two curves cross
    training      pass_at_k_weights, max_at_k_weights; check(function, k, n) of your own function

    correct = np.array([0, 3, 16])                  # of n = 16 samples of each of 3 problems
    pass_at_k(16, correct, 4).mean()
    mean_with_errors([[0, 0, 1], [1, 1, 0, 1]], 2)  # of uneven lists of rewards

Arrays may have any float or integer dtype, and be tensors of PyTorch. Estimates are computed in
float64. No function computes a binomial, so results for n = 1024 and any k are finite and accurate
to n rounding errors. `python passk.py` compares this file with exact fractions for n <= 8.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
WeightFunction = Callable[[Any, int], Any]  # rewards [..., n] and k -> weights [..., n]

ROUNDING = 1e-9  # of the difference of two estimates of one problem, in float64


# --- Ratios of binomials, and sums over the gaps of sorted rewards ------------------------------


def fraction_of_subsets_below(n: int, k: int) -> Floats:
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


def from_gaps(rewards: Floats, factors: Floats) -> Floats:
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


# --- Estimates of one problem, and their variances over new samples -----------------------------


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Probability that a random k-subset of n samples contains a correct one.

        Pass@k = 1 - C(n-c, k) / C(n, k)                     (Chen et al., arXiv 2107.03374)

    Args:
        n: number of samples, an integer or integers of a shape that broadcasts with c.
        c: number of correct samples, whole numbers of any shape, also none.

    Returns: float64 of the same shape.

    Raises: ValueError unless 1 <= k <= n and 0 <= c <= n.
    """
    return _by_size(n, c, k, lambda n, c: 1.0 - fraction_of_subsets_below(n + 1, k + 1)[n - c])


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `pass_at_k`, over new samples of the same problem.

        (C(n-c, k) / C(n, k))^2 - C(n-c, 2k) / C(n, 2k),    2k <= n

    With success probability p, the second term is an unbiased estimate of (1-p)^(2k), so this is
    the variance of a U-statistic (Hoeffding 1948). The ratio of the terms is the product over i < k
    of 1 - ck / ((n-k-i)(n-c-i)); summing its logarithms avoids the cancellation of two numbers
    near 1.

    Args: as `pass_at_k`.

    Returns: float64 of the same shape; NaN where 2k > n, when no unbiased estimate exists.

    Raises: ValueError unless 1 <= k <= n and 0 <= c <= n.
    """

    def of_size(n: int, c: Integers) -> Floats:
        if 2 * k > n:
            return np.full(c.shape, np.nan)
        failed = fraction_of_subsets_below(n + 1, k + 1)[n - c]
        i = np.arange(k, dtype=np.float64)
        right = c[..., None].astype(np.float64)
        # For n-c-i <= 0 the second term is 0: clipping sets the ratio to 0.
        removed = right * k / ((n - k - i) * np.maximum(n - right - i, 1.0))
        with np.errstate(divide="ignore"):  # log 0 = -inf is that ratio
            logarithm = np.log1p(-np.minimum(removed, 1.0)).sum(axis=-1)
        variance: Floats = failed**2 * -np.expm1(logarithm)
        return variance

    return _by_size(n, c, k, of_size)


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Probability that all of a random k-subset of n samples are correct.

        pass^k = C(c, k) / C(n, k)                             (Yao et al., arXiv 2406.12045)

    Arguments, result and errors as `pass_at_k`.
    """
    return _by_size(n, c, k, lambda n, c: fraction_of_subsets_below(n + 1, k + 1)[c])


def pass_hat_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `pass_hat_k`, over new samples of the same problem.

        (C(c, k) / C(n, k))^2 - C(c, 2k) / C(n, 2k),    2k <= n

    This is `pass_at_k_variance` with right and wrong exchanged: same arguments, result and errors.
    """
    sizes, counts = _counts(n, c, k)
    return pass_at_k_variance(sizes, sizes - counts, k)


def max_at_k(rewards: ArrayLike, k: int) -> Floats:
    """Expected best reward of a random k-subset of n samples.

        Max@k = sum_{i=k}^{n} R_(i) C(i-1, k-1) / C(n, k),    R_(1) <= ... <= R_(n)

    On 0/1 rewards it is Pass@k (PKPO, arXiv 2505.15201, theorem 2).

    Args:
        rewards: finite numbers, of shape [..., n].

    Returns: float64 of shape [...].

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    ascending = _ascending(rewards)
    n = ascending.shape[-1]
    _require_k(k, n)
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
        rewards: finite numbers, of shape [..., n].

    Returns: float64 of shape [...], never negative; NaN if 2k > n.

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    ascending = _ascending(rewards)
    n = ascending.shape[-1]
    _require_k(k, n)
    if 2 * k > n:
        return np.full(ascending.shape[:-1], np.nan)
    centred = ascending - max_at_k(ascending, k)[..., None]
    smaller = np.cumsum(centred * _best_of(n, k), axis=-1)  # [..., j]: maxima of rank <= j
    larger = centred[..., k:] * _best_of(n - k, k)
    disjoint = 2.0 * np.einsum("...i,...i->...", larger, smaller[..., k - 1 : -1])
    return np.maximum(-disjoint, 0.0)


def _best_of(n: int, k: int) -> Floats:
    """Probability of each rank i to be the best of a random k-subset: C(i-1, k-1) / C(n, k)."""
    return fraction_of_subsets_below(n, k) * (k / n)


def _ascending(rewards: Any) -> Floats:
    values = np.sort(_groups(rewards), axis=-1)
    if not np.isfinite(values).all():
        raise ValueError("rewards must be finite; got NaN or infinity")
    return values


def _groups(rewards: Any) -> Floats:
    given = as_floats(rewards)
    if given.ndim == 0:
        raise ValueError("rewards need a last axis of n samples; got a single number")
    return given


def _by_size(n: Any, c: Any, k: int, estimate: Callable[[int, Integers], Floats]) -> Floats:
    """An estimate of each problem, from all problems with the same n at once."""
    sizes, counts = _counts(n, c, k)
    result = np.empty(counts.shape)
    for size in np.unique(sizes).tolist():
        result[sizes == size] = estimate(size, counts[sizes == size])
    return np.asarray(result)[()]


def _counts(n: Any, c: Any, k: int) -> tuple[Integers, Integers]:
    """n and c as integers of one shape."""
    sizes = np.asarray(as_floats(n) if hasattr(n, "detach") else n)
    counts = np.asarray(as_floats(c) if hasattr(c, "detach") else c)
    if sizes.dtype.kind not in "iu":
        raise ValueError(f"n must be an integer, got {n!r}")
    for size in np.unique(sizes).tolist():
        _require_k(k, size)
    sizes, counts = np.broadcast_arrays(sizes, counts)
    if counts.dtype.kind == "b" and (sizes > 1).any():
        raise ValueError(f"counts are true or false; with n = {n}, sum them over the samples")
    whole = counts.dtype.kind in "iub" or (counts.dtype.kind == "f" and (counts % 1 == 0).all())
    if not whole or ((counts < 0) | (counts > sizes)).any():
        raise ValueError(f"counts of correct samples must be integers from 0 to n = {n}")
    return sizes.astype(np.int64), counts.astype(np.int64)


def _require_k(k: Any, n: int) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ValueError(f"k must be an integer, got {k!r}")
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} with n = {n} samples; allowed: 1 <= k <= n")


def _require_binary(values: Floats, where: str) -> None:
    if not ((values == 0) | (values == 1)).all():
        raise ValueError(f"{where} must be 0 or 1; for other rewards use Max@k")


# --- Means over problems ------------------------------------------------------------------------


class Mean(NamedTuple):
    """A mean over problems, with its standard errors; NaN where one cannot be estimated.

    error: over new problems, sampled again. within: over new samples of the same problems.
    """

    value: float
    error: float
    within: float
    problems: int


def estimates(groups: Sequence[Any], k: int, metric: str = "pass_at_k") -> tuple[Floats, Floats]:
    """A metric at k of each problem, and its variance over new samples, from uneven lists.

    Args:
        groups: for each of P problems, the rewards of its samples, [n]; n may differ. 0 and 1 for
            Pass@k and pass^k.
        metric: "pass_at_k", "pass_hat_k" or "max_at_k".

    Returns: values [P] and variances [P], NaN where 2k > n.

    Raises: ValueError for another metric or reward, and for a problem with fewer than k samples.
    """
    if metric not in ("pass_at_k", "pass_hat_k", "max_at_k"):
        raise ValueError(f"metric {metric!r}; allowed: pass_at_k, pass_hat_k, max_at_k")
    values, variances = np.empty(len(groups)), np.empty(len(groups))
    for place, group in enumerate(groups):
        rewards = as_floats(group)
        if rewards.ndim != 1 or len(rewards) < k:
            got = f"of problem {place} have the shape {rewards.shape}"
            raise ValueError(f"rewards {got}; with k = {k}, at least {k} numbers are needed")
        if metric != "max_at_k":
            _require_binary(rewards, f"rewards of problem {place}")
        # pass^k is 1 less Pass@k of the exchanged rewards, with the same variance.
        rewards = 1.0 - rewards if metric == "pass_hat_k" else rewards
        values[place], variances[place] = max_at_k(rewards, k), max_at_k_variance(rewards, k)
    return 1.0 - values if metric == "pass_hat_k" else values, variances


def mean_with_errors(groups: Sequence[Any], k: int, metric: str = "pass_at_k") -> Mean:
    """The mean of a metric over problems, its standard error, and the part of it from sampling.

        error^2 = var(values) / P,    within^2 = sum(variances) / P^2

    The error contains that of sampling, so it is at least `within`.

    Args: as `estimates`.

    Returns: NaN for the mean of no problems, for the error of one, and for `within` where 2k > n.

    Raises: ValueError as `estimates`.
    """
    values, variances = estimates(groups, k, metric)
    problems = len(values)
    if problems == 0:
        return Mean(math.nan, math.nan, math.nan, 0)
    within = float(np.sqrt(variances.sum())) / problems
    error = float(values.std(ddof=1)) / problems**0.5 if problems > 1 else math.nan
    return Mean(float(values.mean()), max(error, within), within, problems)


# --- Two models on the same problems ------------------------------------------------------------


class Difference(NamedTuple):
    """First minus second, with its standard error, 95 % interval and two-sided p-value."""

    value: float
    error: float
    low: float
    high: float
    p: float
    problems: int


def paired_difference(first: ArrayLike, second: ArrayLike, largest: float = 1.0) -> Difference:
    """The mean difference of two models' estimates on the same problems, by the paired t-test.

        value -+ t sqrt(var(first - second) / P),    t of P - 1 degrees of freedom  (Student 1908)

    p is at least `least_p`: with few problems that differ, the t-test would claim too much. Where
    all problems differ by the same amount d, the t-test has no error. The interval then allows that
    a share q = 1 - 0.025^(1/P) of all problems differs otherwise (Clopper and Pearson 1934), by any
    amount from -largest to largest: d - q (largest + d) to d + q (largest - d).

    Args:
        first, second: estimates, [P], of problems in the same order.
        largest: the largest difference that is possible: 1 for Pass@k and pass^k, infinite for
            Max@k of rewards without bounds.

    Returns: NaN for what cannot be known: all but the value for one problem, everything for none,
        and the interval if all differ by the same amount and `largest` is infinite.

    Raises: ValueError unless both are [P].
    """
    ours, theirs = as_floats(first), as_floats(second)
    if ours.ndim != 1 or ours.shape != theirs.shape:
        raise ValueError(
            f"estimates must be two lists of one length, got {ours.shape}, {theirs.shape}"
        )
    problems, rounding = len(ours), max(_rounding(first), _rounding(second))
    if problems < 2:
        value = float((ours - theirs)[0]) if problems else math.nan
        return Difference(value, math.nan, math.nan, math.nan, math.nan, problems)
    differences = ours - theirs
    value, deviation = float(differences.mean()), float(differences.std(ddof=1))
    error, smallest = (
        deviation / math.sqrt(problems),
        least_p(int((abs(differences) > rounding).sum())),
    )
    if deviation <= rounding:
        share = 1 - 0.025 ** (1 / problems) if math.isfinite(largest) else math.nan
        low, high = value - share * (largest + value), value + share * (largest - value)
        return Difference(value, error, low, high, smallest, problems)
    half = error * t_quantile(problems - 1)
    low, high = max(value - half, -largest), min(value + half, largest)
    p = max(two_sided_p(value / error, problems - 1), smallest)
    return Difference(value, error, low, high, p, problems)


def least_p(differing: int) -> float:
    """The smallest two-sided p-value of the sign-flip test, 2^(1-m) with m problems that differ.

    That test is exact if each problem's difference is as likely to have either sign (Fisher 1935).
    With few such problems, Student's t gives smaller p-values, down to 0 if their differences are
    equal; the larger of the two is to be used.

    Args:
        differing: number of problems whose difference is above `ROUNDING`.
    """
    return float(2.0 ** (1 - max(differing, 1)))


def two_sided_p(t: float, degrees: int) -> float:
    """P(|T| > |t|) of Student's t with whole degrees of freedom, to 1e-14, which is the least.

    By the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4, over powers of the cosine of
    theta = arctan(|t| / sqrt(degrees)).
    """
    theta = math.atan(abs(t) / math.sqrt(degrees))
    odd = degrees % 2
    j = np.arange(1, (degrees - odd) // 2, dtype=np.float64)
    ratios = (2 * j / (2 * j + 1) if odd else (2 * j - 1) / (2 * j)) * math.cos(theta) ** 2
    total = math.sin(theta) * float(1.0 + np.cumprod(ratios).sum())
    if odd:
        total = 2 / math.pi * (theta + (total * math.cos(theta) if degrees > 1 else 0.0))
    return max(1.0 - total, 1e-14)


def t_quantile(degrees: int, level: float = 0.95) -> float:
    """The t with P(|T| <= t) = level, by bisection of the angle of `two_sided_p`."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if two_sided_p(math.sqrt(degrees) * math.tan(middle), degrees) > 1 - level:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(high)


class Crossing(NamedTuple):
    """The k at which the curve that is ahead at first falls behind, with a 95 % interval.

    Infinite where it does not up to the largest k; 1 where it is behind from the start.
    """

    k: float
    low: float
    high: float


def crossing(first: ArrayLike, second: ArrayLike, resamples: int = 2000, seed: int = 0) -> Crossing:
    """The first k at which two models' curves over k cross, interpolated between whole k.

        k + D(k) / (D(k) - D(k+1)),    D = mean(first - second), of another sign at k + 1

    The interval is the middle 95 % over resampled problems (Efron 1979), of the same sign change.

    Args:
        first, second: estimates at k = 1 .. K of problems in the same order, [P, K], as of `curve`.

    Returns: NaN without problems, or if the curves are equal at every k.

    Raises: ValueError unless both are [P, K].
    """
    ours, theirs = as_floats(first), as_floats(second)
    if ours.ndim != 2 or ours.shape != theirs.shape:
        raise ValueError(f"curves must be two arrays [P, K], got {ours.shape} and {theirs.shape}")
    differences = ours - theirs
    rounding = max(_rounding(first), _rounding(second))
    mean = differences.mean(axis=0) if len(differences) else np.zeros(0)
    unequal = mean[abs(mean) > rounding]
    if not len(unequal):
        return Crossing(math.nan, math.nan, math.nan)
    differences = differences * np.sign(unequal[0])
    drawn = np.random.default_rng(seed).integers(
        len(differences), size=(resamples, len(differences))
    )
    counts = np.array([np.bincount(one, minlength=len(differences)) for one in drawn])
    resampled = np.einsum("rp,pk->rk", counts, differences) / len(differences)
    low, high = np.quantile(_falls_behind(resampled), (0.025, 0.975), method="inverted_cdf")
    at = _falls_behind(differences.mean(axis=0, keepdims=True))[0]
    return Crossing(float(at), float(low), float(high))


def curve(n: ArrayLike, c: ArrayLike) -> Floats:
    """Pass@k of each problem at k = 1 .. K, the smallest n: [P, K]; n and c as `pass_at_k`, [P]."""
    largest = int(np.min(np.asarray(n)))
    return np.stack([np.atleast_1d(pass_at_k(n, c, k)) for k in range(1, largest + 1)], axis=-1)


def _falls_behind(curves: Floats) -> Floats:
    """The k at which each curve over k = 1 .. K, [curves, K], falls below 0."""
    below = curves < 0
    after = np.argmax(below, axis=1)  # the first k below 0, less 1
    rows, before = np.arange(len(curves)), np.maximum(after - 1, 0)
    higher, lower = curves[rows, before], curves[rows, after]
    inside = np.where(after > 0, higher / np.where(higher > lower, higher - lower, 1.0), 0.0)
    return np.where(below.any(axis=1), before + 1 + inside, np.inf)


def _rounding(values: Any) -> float:
    """Differences that are rounding errors of values of this dtype."""
    name = str(getattr(values, "dtype", "float64")).removeprefix("torch.")
    return max(ROUNDING, 8 * EPSILON.get(name, 0.0))


# --- Weights of an unbiased gradient ------------------------------------------------------------


def pass_at_k_weights(rewards: Any, k: int) -> Any:
    """w_i = (k/n) R_i C(n-c, k-1) / C(n-1, k-1), unbiased for Pass@k (RSPO, theorem 4.3).

    sum_i w_i grad log pi(y_i|x) estimates the gradient; advantages are n w_i. The ratio is the
    fraction of (k-1)-subsets of the other responses in which all are wrong: those to which response
    i adds a correct one. All weights of a group are 0 where n-c < k-1.

    Args:
        rewards: 0 or 1, of shape [..., n], with c of n correct; an array, or a tensor of PyTorch.

    Returns: weights of the same shape and float dtype (float64 for integers), on the same device.

    Raises: ValueError for other rewards, or unless 1 <= k <= n.
    """
    values = _groups(rewards)
    _require_binary(values, "rewards")
    n = values.shape[-1]
    _require_k(k, n)
    wrong = n - values.sum(axis=-1, keepdims=True).astype(np.int64)
    # A prompt with nothing correct has wrong = n, beyond the table, and R_i = 0 throughout.
    fraction_all_wrong = fraction_of_subsets_below(n, k)[np.minimum(wrong, n - 1)]
    return _like(rewards, values * ((k / n) * fraction_all_wrong))


def max_at_k_weights(rewards: Any, k: int) -> Any:
    """Marginal contribution of each response to the best of k, unbiased for Max@k.

        w_i = (k/n)/C(n-1,k-1) * [R_i C(c_lt, k-1) - sum_{j <= c_lt} R_(j) C(j-1, k-2)]

    with R_(1) <= ... <= R_(n) and c_lt the number of rewards strictly below R_i. It is k/n times
    the average, over the (k-1)-subsets S of the other responses, of max(S + i) - max(S).

    Computed without cancellation: by C(m, k-1) = sum_{j <= m} C(j-1, k-2), summation by parts
    turns the bracket into sums of the gaps between neighbouring rewards,

        w_(i) = (k/n) * sum_{m < i} [R_(m+1) - R_(m)] * C(m, k-1) / C(n-1, k-1),     k >= 2,

    in which every term is >= 0 and equal rewards get equal weights. For k = 1, w_i = R_i / n.
    O(n log n) per prompt: one sort and one prefix sum. Needs k <= n.

    The nearest published estimator is the same one: PKPO's s^(loo-1) (Walder and Karkhanis,
    arXiv 2505.15201) for k >= 2. The formula is theorem C.4 of RSPO.

    Args:
        rewards: finite numbers, of shape [..., n]; an array, or a tensor of PyTorch.

    Returns: weights of the same shape and float dtype (float64 for integers), on the same device.

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    values = _groups(rewards)
    if not np.isfinite(values).all():
        raise ValueError("rewards must be finite; got NaN or infinity")
    n = values.shape[-1]
    _require_k(k, n)
    if k == 1:
        return _like(rewards, values / n)
    return _like(rewards, from_gaps(values, (k / n) * fraction_of_subsets_below(n, k)[1:]))


def _like(rewards: Any, weights: Floats) -> Any:
    """Weights in the type, float dtype and device of the rewards."""
    if hasattr(rewards, "new_tensor"):  # of PyTorch
        return (rewards if rewards.is_floating_point() else rewards.double()).new_tensor(weights)
    dtype = getattr(rewards, "dtype", None)
    return weights if dtype is None or dtype.kind in "iub" else weights.astype(dtype, copy=False)


# --- Whether a function's weights are an unbiased gradient of Pass@k ----------------------------

# The relative error that weights of a dtype may have in groups of up to 16: that of a hundred
# operations and more in float64 and float32, of four in the dtypes of 16 bits.
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
MOST_TRIED = 16  # responses for which every k is tried
MOST_MIXED = 20  # responses, for `Slope.mixture`: its rounding errors grow with n, to 1e-8 at 20
MOST_TERMS = 4  # of a mixture in words
MOST_SHOWN = 16  # rewards of a group in a message
# Constant factors that have a name, as functions of k and n.
FACTORS: dict[str, Callable[[int, int], float]] = {
    "n": lambda k, n: n,
    "1/n": lambda k, n: 1 / n,
    "k": lambda k, n: k,
    "1/k": lambda k, n: 1 / k,
    "k/n": lambda k, n: k / n,
    "n/k": lambda k, n: n / k,
    "(n-k)/n": lambda k, n: (n - k) / n,
    "(n-k)/k": lambda k, n: (n - k) / k,
    "(n-k+1)/n": lambda k, n: (n - k + 1) / n,
    "(n-k+1)/k": lambda k, n: (n - k + 1) / k,
}


@dataclass(frozen=True)
class Weights:
    """What a function returned: float64 [..., n], and the precision in which it was computed."""

    values: Floats
    precision: str  # a key of TOLERANCE

    @property
    def tolerance(self) -> float:
        return tolerance_of(self.precision, self.values.shape[-1])

    @property
    def rounding(self) -> float:
        """Below this share of the largest weight, a difference is a rounding error."""
        return max(1e-12, 4 * EPSILON[self.precision])

    def agree(self, one: Floats, other: Floats) -> bool:
        """Whether some of these weights are equal to others."""
        scale = float(abs(self.values).max(initial=0.0))
        return np.allclose(one, other, rtol=self.tolerance, atol=self.rounding * scale)


@dataclass(frozen=True)
class Slope:
    """F'(p) of weights, where the expected update follows the gradient of F(p), F(0) = 0.

        F'(p) = sum_m Bin(m; n-1, p) a_m,    a_m = n (w+(m+1) - w-(m)),    m = 0 .. n-1

    w+(c) and w-(c) are the weights of a correct and of a wrong response where c of n are correct,
    p the chance that a response is correct (RL2ML, arXiv 2605.30154).

    coefficients: a_m, [n].
    scale: n times the largest weight; a_m is a difference of numbers of this size.
    """

    coefficients: Floats
    scale: float
    precision: str

    @property
    def tolerance(self) -> float:
        return tolerance_of(self.precision, len(self.coefficients))

    def fits(self, precision: str | None = None) -> list[int]:
        """The j for which F is a positive constant times Pass@j; several if too imprecise to tell.

        The slope of Pass@j, j (1-p)^(j-1), has a_m = j C(n-1-m, j-1) / C(n-1, j-1).
        """
        n, first = len(self.coefficients), float(self.coefficients[0])
        error = tolerance_of(precision or self.precision, n) * max(self.scale, first)
        if first <= error:
            return []
        found = []
        for j in range(1, n + 1):
            second = first * (n - j) / max(n - 1, 1)  # its m = 1, which most j do not fit
            if n == 1 or abs(self.coefficients[1] - second) <= error:
                expected = first * fraction_of_subsets_below(n, j)[::-1]
                if (abs(self.coefficients - expected) <= error).all():
                    found.append(j)
        return found

    @property
    def unbiased_for(self) -> int | None:
        """The one j of `fits`."""
        fits = self.fits()
        return fits[0] if len(fits) == 1 else None

    @property
    def factor(self) -> float:
        """The constant: F = factor Pass@j with j = `unbiased_for`; NaN if there is none."""
        j = self.unbiased_for
        return math.nan if j is None else float(self.coefficients[0]) / j

    @property
    def mixture(self) -> dict[int, float] | None:
        """j -> b_j of F = sum_j b_j Pass@j, without those of 0.

        Newton's forward differences of a_(n-1-t) over t give b_j: C(n-1, j-1)/j times the
        difference of order j-1 at t = 0. None if n > 20, if rounding errors are too large, or if F
        has more than two terms of which one is below 0, which says little.
        """
        n, largest = len(self.coefficients), float(abs(self.coefficients).max())
        epsilon = EPSILON[self.precision]
        if n > MOST_MIXED:
            return None
        if largest <= max(1e-12, 0.0 if epsilon < 1e-15 else 16 * n * epsilon):
            return {}
        smallest = 1e-6 * max(1e-6, largest)
        differences, mixture = self.coefficients[::-1], {}
        for j in range(1, n + 1):
            share = math.comb(n - 1, j - 1) / j
            error = share * 2 ** (j - 1) * 4 * epsilon * max(self.scale, largest)
            if error > 0.005 * largest:
                return None
            b = share * float(differences[0])
            if abs(b) > max(smallest, error):
                mixture[j] = b
            differences = np.diff(differences)
        return mixture if len(mixture) <= 2 or min(mixture.values()) > 0 else None

    @property
    def target(self) -> str:
        """What is maximized, in words."""
        fits, mixture = self.fits(), self.mixture
        if len(fits) > 1:
            return f"undecided in {self.precision}: fits {_passes(fits)}"
        if fits:
            one = _close(self.factor, 1.0, self.tolerance)
            return f"unbiased for {'' if one else f'{self.factor:.4g} times '}Pass@{fits[0]}"
        if mixture is None:
            return "not unbiased for any Pass@k"
        terms = [f"{b:.3g} Pass@{j}" for j, b in mixture.items()]
        if len(terms) > MOST_TERMS:
            terms[3:-1] = ["..."]
        return f"maximizes {' + '.join(terms).replace('+ -', '- ') or 'nothing, F is 0'}"


class Answer(NamedTuple):
    """The answer of `check`, true if it passed; its text says why."""

    passed: bool
    lines: list[str]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(function: WeightFunction, k: int, n: int, factor: float | None = None) -> Answer:
    """Whether a function's weights are an unbiased gradient of Pass@k, up to a positive factor.

    Computed from the weights of the n + 1 groups of 0/1 rewards; see `Slope`. How exactly depends
    on the dtype that the function returns: its errors of rounding are allowed (`TOLERANCE`). With
    bfloat16, a bias below 3 % cannot be seen, and all k are told apart for n <= 16 only.

    Args:
        function: takes rewards [..., n] (a float64 array) and k, returns weights or advantages
            [..., n] as an array or as a tensor of PyTorch.
        k: as the function gets it, and of the Pass@k that it is checked for.
        n: responses of a group.
        factor: also require that F is this number times Pass@k, such as 1 for weights, n for
            advantages. By default any positive factor passes, but its name is told.

    Returns: whether it passed; and what it maximizes with each k (powers of 2 for n > 16), a line
        each, then the verdict.

    Raises: ValueError where the function fails or returns no weights of this k, with the shape and
        dtype of what it was given; for weights that depend on the order of the responses or on
        other groups; unless k and n are integers of at least 1. Other k that fail are lines.
    """
    require_integers(k=k, n=n)
    groups = binary_groups(n)

    def slope(tried: int) -> Slope:
        return slope_of(exchangeable_weights(function, groups, tried, some_groups(n)))

    return answer_of(slope, k, n, factor)


def answer_of(slope: Callable[[int], Slope], k: int, n: int, factor: float | None = None) -> Answer:
    """The answer of `check` for weights whose slope with each k is known.

    Raises: what `slope` raises for this k.
    """
    ks = range(1, n + 1) if n <= MOST_TRIED else [2**i for i in range(n.bit_length())]
    lines, slopes = [], {}
    for tried in sorted({*ks, k}):
        try:
            slopes[tried] = slope(tried)
            lines.append(f"k = {tried:<3} {slopes[tried].target}")
        except ValueError as error:
            if tried == k:
                raise
            lines.append(f"k = {tried:<3} refused: {error}")
    factors = {j: one.factor for j, one in slopes.items() if one.unbiased_for == j}
    lines += _notes(slopes[k], factors, k)
    of_which = f"unbiased with k = {', '.join(map(str, factors))}" if factors else "with no k"
    verdict, passed = f"not unbiased for Pass@{k} with n = {n}", k in factors
    if passed:
        named = _named(factors, k, n, slopes[k].tolerance)
        verdict = f"unbiased for {named}Pass@{k} with n = {n}"
        if factor is not None and not _close(factors[k], factor, slopes[k].tolerance):
            passed, verdict = False, f"{verdict}, not for {factor:g} times Pass@{k}"
    elif len(slopes[k].fits()) > 1:
        verdict = f"undecided for Pass@{k} with n = {n} in {slopes[k].precision}"
    return Answer(passed, [*lines, f"{verdict}; {of_which}"])


def _named(factors: Mapping[int, float], k: int, n: int, tolerance: float) -> str:
    """The factor of k, with a name that fits every k if there is one; empty for 1."""
    if _close(factors[k], 1.0, tolerance):
        return ""
    for name, value in FACTORS.items() if len(factors) > 1 else ():
        if all(_close(found, value(j, n), tolerance) for j, found in factors.items()):
            return f"{name} = {factors[k]:.4g} times "
    return f"{factors[k]:.4g} times "


def _notes(slope: Slope, factors: Mapping[int, float], k: int) -> Iterable[str]:
    """Lines on a factor that depends on k, and on what the precision cannot decide."""
    tolerance, least = slope.tolerance, min(factors.values(), default=1.0)
    if any(not _close(found, least, tolerance) for found in factors.values()):
        yield "the factor depends on k: each k has a learning rate of its own, also in a sum over k"
    if slope.precision != "float64":
        allowed = f"differences up to {tolerance:.2g} of the largest weight count as rounding"
        yield f"computed in {slope.precision}: {allowed}, so a smaller bias is not seen"
    elif k in slope.fits("float32") and not slope.fits():
        yield "as unbiased as float32 allows: a function that computes in float32 must return it"


def _close(one: float, other: float, tolerance: float) -> bool:
    """Whether two factors are equal but for rounding, or a 1e-6 that is added to a divisor."""
    return math.isclose(one, other, rel_tol=max(1e-6, tolerance))


def tolerance_of(precision: str, n: int) -> float:
    """`TOLERANCE` for groups of n: logarithms of factorials, or sums, lose more in larger ones."""
    return TOLERANCE[precision] * max(1.0, n / 16)


def _passes(ks: list[int]) -> str:
    return " and ".join(f"Pass@{k}" for k in (ks if len(ks) < 3 else [ks[0], ks[-1]]))


def slope_of(weights: Weights) -> Slope:
    """The slope of the weights of `binary_groups(n)`, which do not depend on the order."""
    values, n = weights.values, weights.values.shape[-1]
    m = np.arange(n)
    correct = values[m + 1, 0]  # the first response of a group is correct, the last one wrong
    coefficients = n * (correct - values[m, -1])
    return Slope(coefficients, n * float(abs(values).max()), weights.precision)


def binary_groups(n: int) -> Floats:
    """(n+1, n): row c has c rewards of 1, then rewards of 0."""
    return np.tril(np.ones((n + 1, n)), -1)


def some_groups(n: int) -> list[int]:
    """Rows of `binary_groups` of which each is also tried alone."""
    return sorted({0, 1, n // 2, n - 1, n})


def exchangeable_weights(
    function: WeightFunction, groups: Floats, k: int, alone: Iterable[int]
) -> Weights:
    """The weights of some groups, [groups, n], by a function that treats all responses alike.

    Args:
        alone: groups that it must also give the same weights without the others.

    Raises: ValueError of one line, which names the group.
    """
    name = name_of(function)
    found = weights_of(function, groups, k)
    for place in alone:
        for group in (groups[place], groups[[place]]):
            weights = weights_of(function, group, k).values.reshape(-1)
            if not found.agree(weights, found.values[place]):
                raise ValueError(
                    f"{name} must return the same weights for a group alone and among others, got "
                    f"{shown(weights)} and {shown(found.values[place])} for {shown(groups[place])}"
                )
    rng, n = np.random.default_rng(0), groups.shape[-1]
    for order in (np.arange(n)[::-1], np.roll(np.arange(n), 1), rng.permutation(n)):
        reordered = weights_of(function, groups[:, order], k).values
        for group, before, after in zip(groups, found.values[:, order], reordered, strict=True):
            if not found.agree(before, after):
                raise ValueError(
                    f"{name} must not depend on the order of the responses, got {shown(after)} for "
                    f"{shown(group[order])}, where those for {shown(group)} are {shown(before)} "
                    "in this order"
                )
    return found


def weights_of(function: WeightFunction, rewards: Floats, k: int) -> Weights:
    """What a function returns for rewards [..., n].

    Raises: ValueError of one line if it fails, changes its rewards, or returns no weights.
    """
    name, given = name_of(function), rewards.copy()
    try:
        found = function(given, k)
    except Exception as error:  # of a user's function
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        given_as = f"rewards of shape {rewards.shape}, dtype {rewards.dtype}, and k = {k}"
        raise ValueError(f"{name} failed for {given_as}: {reason}") from error
    if not np.array_equal(given, rewards):
        raise ValueError(f"{name} must not change the rewards that it is given")
    return as_weights(found, rewards, name)


def as_weights(found: Any, rewards: Floats, name: str) -> Weights:
    """What the function `name` returned for some rewards: an array, or a tensor of PyTorch.

    Raises: ValueError for another shape, and for weights that are not finite real numbers.
    """
    if not hasattr(found, "dtype") or tuple(found.shape) != rewards.shape or not found.ndim:
        got = tuple(found.shape) if hasattr(found, "dtype") else type(found).__name__
        raise ValueError(f"{name} must return an array of shape {rewards.shape}, got {got}")
    dtype = str(found.dtype).removeprefix("torch.")
    if dtype.startswith(("int", "uint", "bool", "float128", "longdouble", "float96")):
        dtype = "float64"
    if dtype not in TOLERANCE:
        allowed = ", ".join(TOLERANCE)
        raise ValueError(f"{name} must return real numbers, got dtype {dtype}; allowed: {allowed}")
    values = as_floats(found)
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        wrong = f"{values[index]} at index {index} for the rewards {shown(rewards[index[:-1]])}"
        raise ValueError(f"{name} must return finite weights, got {wrong}")
    return Weights(values, dtype)


def as_floats(numbers: Any) -> Floats:
    """Numbers of any dtype in float64; a tensor of PyTorch of any device and dtype too."""
    if hasattr(numbers, "detach"):  # NumPy has no bfloat16
        numbers = numbers.detach().cpu().double().numpy()
    return np.asarray(numbers, dtype=np.float64)


def name_of(function: WeightFunction) -> str:
    return getattr(function, "__name__", "the weight function")


def shown(group: Floats) -> str:
    """The numbers of a group in a message, the first ones of a large group."""
    numbers = [f"{value:g}" for value in group[:MOST_SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if len(group) > MOST_SHOWN else ''}]"


def require_integers(**numbers: Any) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


# --- The test of this file ------------------------------------------------------------------------


def self_test(largest: int = 8) -> int:
    """Compare every function with its definition, in exact fractions over all subsets.

    Returns: the number of values that were compared.

    Raises: AssertionError that names the function and its arguments.
    """
    compared = 0

    def same(what: str, found: Any, expected: Any) -> None:
        nonlocal compared
        given, exact = np.ravel(as_floats(found)), [float(value) for value in np.ravel(expected)]
        compared += len(exact)
        if len(given) != len(exact) or not np.allclose(given, exact, rtol=1e-12, atol=1e-14):
            raise AssertionError(f"{what}: got {given}, expected {exact}")

    for n in range(1, largest + 1):
        ties = [Fraction(3 * i * i % 7 - 2, 2) for i in range(n)]
        for k in range(1, n + 1):
            for c in range(n + 1):
                verdicts = [Fraction(int(i < c)) for i in range(n)]
                name = f"n = {n}, c = {c}, k = {k}"
                best, variance, weights = _by_subsets(verdicts, k)
                same(f"pass_at_k, {name}", pass_at_k(n, c, k), best)
                same(
                    f"pass_at_k_weights, {name}", pass_at_k_weights(as_floats(verdicts), k), weights
                )
                wrong = [1 - verdict for verdict in verdicts]
                same(f"pass_hat_k, {name}", pass_hat_k(n, c, k), 1 - _by_subsets(wrong, k)[0])
                if 2 * k <= n:
                    same(f"pass_at_k_variance, {name}", pass_at_k_variance(n, c, k), variance)
                    same(f"pass_hat_k_variance, {name}", pass_hat_k_variance(n, n - c, k), variance)
            best, variance, weights = _by_subsets(ties, k)
            same(f"max_at_k, n = {n}, k = {k}", max_at_k(as_floats(ties), k), best)
            same(
                f"max_at_k_weights, n = {n}, k = {k}", max_at_k_weights(as_floats(ties), k), weights
            )
            if 2 * k <= n:
                same(f"max_at_k_variance, n = {n}", max_at_k_variance(as_floats(ties), k), variance)
            for weights_at_k in (pass_at_k_weights, max_at_k_weights):
                same(f"check, n = {n}, k = {k}", check(weights_at_k, k, n, factor=1).passed, True)
    # P(|T| <= 1) with 1 to 4 degrees of freedom, and the crossing of two lines at k = 2.5.
    for degrees, inside in ((1, 1 / 2), (2, 3**-0.5), (4, 7 / 5**1.5)):
        same(f"two_sided_p, {degrees}", two_sided_p(1.0, degrees), 1 - inside)
        same(f"t_quantile, {degrees}", t_quantile(degrees, inside), 1)
    same("crossing", crossing([[1.5, 0.5, -0.5]], [[0.0, 0.0, 0.0]]), [2.5, 2.5, 2.5])
    return compared


def _by_subsets(rewards: list[Fraction], k: int) -> tuple[Fraction, Fraction, list[Fraction]]:
    """Max@k, its variance (0 if 2k > n) and weights, by the definitions, over all subsets."""
    n, everyone = len(rewards), range(len(rewards))
    subsets = list(itertools.combinations(everyone, k))
    best = {subset: max(rewards[i] for i in subset) for subset in subsets}
    mean = sum(best.values(), Fraction(0)) / len(subsets)
    pairs = [best[s] * best[t] for s in subsets for t in subsets if not set(s) & set(t)]
    variance = mean**2 - sum(pairs, Fraction(0)) / len(pairs) if pairs else Fraction(0)
    weights = []
    for i in everyone:
        gains = [
            max(rewards[i], *(rewards[j] for j in others)) - max(rewards[j] for j in others)
            if others
            else rewards[i]
            for others in itertools.combinations([j for j in everyone if j != i], k - 1)
        ]
        weights.append(Fraction(k, n) * sum(gains, Fraction(0)) / len(gains))
    return mean, variance, weights


if __name__ == "__main__":
    print(f"{self_test()} values are those of exact fractions")
