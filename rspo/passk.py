"""Pass@k, pass^k and Max@k from n samples of a problem, in one file that needs NumPy only.

Copy this file anywhere, or use it as `rspo.passk` of the package RSPO (arXiv 2508.01174). Both give
the same numbers: `rspo.estimators`, the objectives and the checks of the package import their
functions from here, and this file imports nothing of the package. `check_pass_at_k` of the package
does the same as `check`, and also tells what the weights maximize if they are computed for another
k. This file needs Python 3.10 and NumPy 1.23, or newer.

    estimates     pass_at_k, pass_hat_k, max_at_k and their variances; mean_with_errors
    comparisons   paired_difference of two models; crossing, the k at which two curves cross
    training      pass_at_k_weights, max_at_k_weights; check(function, k, n) of your own function

    correct = np.array([0, 3, 16])                  # for 3 problems with n = 16 samples each
    pass_at_k(16, correct, 4).mean()
    mean_with_errors([[0, 0, 1], [1, 1, 0, 1]], 2)  # from the rewards of each problem's samples

Arrays may have any float or integer dtype, or be tensors of PyTorch. Estimates are computed in
float64. No function forms a binomial coefficient, so results for n = 1024 and any k are finite and
accurate to n rounding errors. `python passk.py` compares this file with exact fractions for n <= 8.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
WeightFunction = Callable[[Any, int], Any]  # rewards [..., n] and k -> weights [..., n]

# A difference of estimates in float64 up to this number counts as rounding. The number is absolute
# if all estimates are at most 1; otherwise it is relative to the largest.
ROUNDING = 1e-9
# By dtype, the rounding error that numbers may have, relative to the largest number. It allows for
# a hundred operations or more in float64 and float32, and for four in the dtypes of 16 bits.
TOLERANCE = {"float64": ROUNDING, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
# Beginnings of the names of dtypes whose numbers count as float64.
AS_FLOAT64 = ("int", "uint", "bool", "longdouble", "float96", "float128")


# --- Ratios of binomials, and sums over the gaps of sorted rewards ------------------------------


def fraction_of_subsets_below(n: int, k: int) -> Floats:
    """Fraction of the (k-1)-subsets of n-1 responses that consist of m given responses only.

        fraction[m] = C(m, k-1) / C(n-1, k-1),   m = 0 .. n-1        (1 <= k <= n)

    It is computed downwards from fraction[n-1] = 1 as the running product of (m-k+1)/m. Neither
    binomial is ever formed (C(4095, 2047) has 1231 digits), so the results for n = 4096 and any k
    are finite and accurate to n rounding errors. Entries below the smallest float64 are 0.

    Returns: float64 of shape [n].
    """
    m = np.arange(n - 1, 0, -1, dtype=np.float64)
    ratios = np.maximum(m - (k - 1), 0.0) / m
    return np.concatenate(([1.0], np.cumprod(ratios)))[::-1]


def from_gaps(rewards: Floats, factors: Floats) -> Floats:
    """Sum the gaps between neighbouring rewards up to each reward, each gap times its factor.

        w_(i) = sum_{m < i} factors[m-1] * (R_(m+1) - R_(m))

    Equal rewards get equal weights.

    Args:
        rewards: [..., n]. In ascending order, those of a group are R_(1) <= ... <= R_(n).
        factors: of shape [n-1].

    Returns: w of shape [..., n], in the order of `rewards`; 0 for the lowest reward.
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
        n: number of samples, a whole number or an array of whole numbers that broadcasts with c.
        c: number of correct samples, whole numbers of any shape, which may be empty.

    Returns: float64 of the shape to which n and c broadcast.

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

    The arguments are those of `pass_at_k`.

    Returns: float64 of the shape to which n and c broadcast. It is NaN where 2k > n, because no
        unbiased estimate exists there.

    Raises: ValueError unless 1 <= k <= n and 0 <= c <= n.
    """

    def of_size(n: int, c: Integers) -> Floats:
        """The estimates for problems with the same n."""
        if 2 * k > n:
            return np.full(c.shape, np.nan)
        failed = fraction_of_subsets_below(n + 1, k + 1)[n - c]
        i = np.arange(k, dtype=np.float64)
        correct = c[..., None].astype(np.float64)
        # The second term is 0 if n-c < 2k. Some factor of the ratio is then at most 0, or has a
        # divisor of at most 0. Clipping makes this factor, and so the ratio, 0.
        removed = correct * k / ((n - k - i) * np.maximum(n - correct - i, 1.0))
        with np.errstate(divide="ignore"):  # a factor of 0 has the logarithm -inf
            logarithm = np.log1p(-np.minimum(removed, 1.0)).sum(axis=-1)
        return np.asarray(failed**2 * -np.expm1(logarithm))

    return _by_size(n, c, k, of_size)


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Probability that all of a random k-subset of n samples are correct.

        pass^k = C(c, k) / C(n, k)                             (Yao et al., arXiv 2406.12045)

    The arguments, result and errors are those of `pass_at_k`.
    """
    return _by_size(n, c, k, lambda n, c: fraction_of_subsets_below(n + 1, k + 1)[c])


def pass_hat_k_variance(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `pass_hat_k`, over new samples of the same problem.

        (C(c, k) / C(n, k))^2 - C(c, 2k) / C(n, 2k),    2k <= n

    This is `pass_at_k_variance` with right and wrong exchanged, with the same arguments, result and
    errors.
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
    ascending = np.sort(_groups(rewards, k), axis=-1)
    n = ascending.shape[-1]
    # einsum, not @: BLAS may round differently with another machine or number of threads.
    return np.asarray(np.einsum("...i,i->...", ascending, _best_of(n, k)))


def max_at_k_variance(rewards: ArrayLike, k: int) -> Floats:
    """Unbiased estimate of the variance of `max_at_k`, over new samples of the same problem.

        (Max@k)^2 - sum_{j<i} 2 R_(i) R_(j) C(j-1, k-1) C(i-1-k, k-1) / (C(n, k) C(n-k, k))

    The second term averages max(S) max(T) over the ordered pairs of disjoint k-subsets. S and T are
    independent, so it is an unbiased estimate of E[Max@k]^2. If the smaller maximum has rank j and
    the larger has rank i, the first subset has its other k-1 ranks below j, and the second has its
    other k-1 ranks below i and outside the first. On binary rewards the result equals
    `pass_at_k_variance`. The code subtracts Max@k from all rewards, which does not change the
    result and makes the first term 0.

    Args:
        rewards: finite numbers, of shape [..., n].

    Returns: float64 of shape [...], never negative; NaN if 2k > n.

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    ascending = np.sort(_groups(rewards, k), axis=-1)
    n = ascending.shape[-1]
    if 2 * k > n:
        return np.full(ascending.shape[:-1], np.nan)
    centred = ascending - max_at_k(ascending, k)[..., None]
    smaller = np.cumsum(centred * _best_of(n, k), axis=-1)  # [..., j]: maxima of rank <= j
    larger = centred[..., k:] * _best_of(n - k, k)
    disjoint = 2.0 * np.einsum("...i,...i->...", larger, smaller[..., k - 1 : -1])
    return np.maximum(-disjoint, 0.0)


def _best_of(n: int, k: int) -> Floats:
    """Probability that rank i = 1 .. n is the best of a random k-subset: C(i-1, k-1) / C(n, k)."""
    return fraction_of_subsets_below(n, k) * (k / n)


def _by_size(n: Any, c: Any, k: int, estimate: Callable[[int, Integers], Floats]) -> Floats:
    """Compute an estimate for each problem; problems with the same n are computed together."""
    sizes, counts = _counts(n, c, k)
    result = np.empty(counts.shape)
    for size in np.unique(sizes).tolist():
        result[sizes == size] = estimate(size, counts[sizes == size])
    return np.asarray(result)[()]  # an array without axes becomes a number


def _counts(n: Any, c: Any, k: int) -> tuple[Integers, Integers]:
    """Return n and c as integers of one shape.

    Raises: ValueError as `pass_at_k` does.
    """
    require_integers(k=k)
    sizes = _array(n)
    if sizes.dtype.kind not in "iuf" or (sizes % 1 != 0).any():
        raise ValueError(f"n must be whole numbers, got {n!r}")
    sizes = sizes.astype(np.int64)
    for size in np.unique(sizes).tolist():
        _require_k(k, size)
    sizes, counts = np.broadcast_arrays(sizes, _array(c))
    if counts.dtype.kind == "b" and (sizes > 1).any():
        raise ValueError(f"counts are true or false; with n = {n}, sum them over the samples")
    if not ((counts >= 0) & (counts <= sizes) & (counts % 1 == 0)).all():
        raise ValueError(f"counts of correct samples must be integers from 0 to n = {n}")
    return sizes, counts.astype(np.int64)


def _groups(rewards: Any, k: int) -> Floats:
    """Return rewards [..., n] in float64.

    Raises: ValueError unless they are finite and 1 <= k <= n.
    """
    groups = as_floats(rewards)
    if groups.ndim == 0:
        raise ValueError("rewards need a last axis of n samples; got a single number")
    if not np.isfinite(groups).all():
        raise ValueError("rewards must be finite; got NaN or infinity")
    _require_k(k, groups.shape[-1])
    return groups


def _require_k(k: Any, n: int) -> None:
    require_integers(k=k)
    if k > n:
        raise ValueError(f"k = {k} with n = {n} samples; allowed: 1 <= k <= n")


def _require_binary(values: Floats, where: str) -> None:
    if not ((values == 0) | (values == 1)).all():
        raise ValueError(f"{where} must be 0 or 1; for other rewards use Max@k")


def require_integers(**numbers: Any) -> None:
    """Raises: ValueError unless all are integers of at least 1."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def as_floats(numbers: Any) -> Floats:
    """Numbers of any dtype as a float64 array; a tensor of PyTorch may be on any device."""
    return np.asarray(_array(numbers), dtype=np.float64)


def _array(numbers: Any) -> NDArray[Any]:
    """Numbers as an array of NumPy.

    A tensor of floats becomes float64, because NumPy has no bfloat16.
    """
    if not hasattr(numbers, "detach"):  # not a tensor of PyTorch
        return np.asarray(numbers)
    tensor = numbers.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.double()
    return np.asarray(tensor)


def precision_of(numbers: Any) -> str:
    """The name of the dtype of an array or tensor.

    It is "float64" for lists, too, and for all dtypes whose names begin as in `AS_FLOAT64`.
    """
    name = str(getattr(numbers, "dtype", "float64")).removeprefix("torch.")
    return "float64" if name.startswith(AS_FLOAT64) else name


# --- Means over problems ------------------------------------------------------------------------


class Mean(NamedTuple):
    """A mean over problems, with two standard errors; NaN for what cannot be estimated.

    error: the standard error over new problems and new samples of them.
    within: the standard error over new samples of the same problems.
    problems: number of problems.
    """

    value: float
    error: float
    within: float
    problems: int


def estimates(groups: Sequence[Any], k: int, metric: str = "pass_at_k") -> tuple[Floats, Floats]:
    """A metric at k of each problem, and its variance over new samples, from lists of rewards.

    Args:
        groups: for each of P problems, the rewards of its samples, [n]. n may differ between
            problems. For Pass@k and pass^k, rewards are 0 or 1.
        metric: "pass_at_k", "pass_hat_k" or "max_at_k".

    Returns: values [P], and variances [P] that are NaN where 2k > n.

    Raises: ValueError for an unknown metric, for rewards that the metric does not accept, and for a
        problem with fewer than k samples.
    """
    if metric not in ("pass_at_k", "pass_hat_k", "max_at_k"):
        raise ValueError(f"metric {metric!r}; allowed: pass_at_k, pass_hat_k, max_at_k")
    require_integers(k=k)
    values = np.empty(len(groups))
    variances = np.empty(len(groups))
    for place, group in enumerate(groups):
        rewards = as_floats(group)
        if rewards.ndim != 1 or len(rewards) < k:
            raise ValueError(
                f"rewards of problem {place} have the shape {rewards.shape}; with k = {k}, at "
                f"least {k} numbers are needed"
            )
        if metric != "max_at_k":
            _require_binary(rewards, f"rewards of problem {place}")
        if metric == "pass_hat_k":
            rewards = 1.0 - rewards
        values[place] = max_at_k(rewards, k)
        variances[place] = max_at_k_variance(rewards, k)
    # pass^k is 1 minus the Pass@k of 1 minus the rewards, so both have the same variance.
    if metric == "pass_hat_k":
        values = 1.0 - values
    return values, variances


def mean_with_errors(groups: Sequence[Any], k: int, metric: str = "pass_at_k") -> Mean:
    """The mean of a metric over problems, its standard error, and the part due to sampling.

        error^2 = var(values) / P,    within^2 = sum(variances) / P^2

    The error over new problems includes that of sampling, so the returned `error` is at least
    `within`.

    The arguments are those of `estimates`, which also says what raises a ValueError.

    Returns: the mean and both errors. Without problems, all three are NaN. `error` is NaN for one
        problem, and `within` if 2k > n for any problem.
    """
    values, variances = estimates(groups, k, metric)
    problems = len(values)
    if problems == 0:
        return Mean(math.nan, math.nan, math.nan, 0)
    within = float(np.sqrt(variances.sum())) / problems
    error = math.nan
    if problems > 1:
        error = float(values.std(ddof=1)) / math.sqrt(problems)
    return Mean(float(values.mean()), max(error, within), within, problems)


# --- Two models on the same problems ------------------------------------------------------------


class Difference(NamedTuple):
    """A mean difference over problems, first minus second.

    error: its standard error.
    low, high: the ends of its 95 % interval.
    p: the two-sided p-value of the hypothesis that the difference is 0.
    problems: number of problems.
    alike: whether there are at least two problems and the difference is the same for all of them.
    """

    value: float
    error: float
    low: float
    high: float
    p: float
    problems: int
    alike: bool = False


def paired_difference(first: ArrayLike, second: ArrayLike, largest: float = 1.0) -> Difference:
    """The mean difference of two models' estimates on the same problems, by the paired t-test.

        value -+ t sqrt(var(first - second) / P),    t of P - 1 degrees of freedom  (Student 1908)

    p is at least `least_p`, because the t-test would claim too much where the models differ on few
    problems only. If p is then not below .05, the interval is extended so that it contains 0.

    If the difference is the same number d for all problems, their standard error is 0, and the
    t-test does not apply. The interval then allows that a share q = 1 - 0.025^(1/P) of all problems
    has another difference (Clopper and Pearson 1934), anywhere from -L to L with L = `largest`: it
    goes from d - q (L + d) to d + q (L - d). p is 2 (L / (L + |d|))^P, the level at which this
    interval begins to exclude 0.

    Args:
        first, second: estimates of the two models, [P], of problems in the same order.
        largest: the largest difference that is possible: 1 for Pass@k and pass^k, infinite for
            Max@k of rewards without bounds.

    Returns: the difference, with NaN for what cannot be known. Without problems, every number is
        NaN; with one problem, every number except the value. If the difference is the same for all
        problems and `largest` is infinite, the interval is NaN, and p is `least_p`.

    Raises: ValueError unless both are finite and of the same shape [P], or for a difference above
        `largest`.
    """
    differences = _differences(first, second, axes=1)
    rounding = _rounding(first, second)
    problems = len(differences)
    if (abs(differences) > largest + rounding).any():
        raise ValueError(f"a difference is above largest = {largest:g}; for Max@k, use infinity")
    value = float(differences.sum()) / problems if problems else math.nan
    if problems < 2:
        return Difference(value, math.nan, math.nan, math.nan, math.nan, problems)
    deviation = float(differences.std(ddof=1))
    error = deviation / math.sqrt(problems)
    smallest = least_p(int((abs(differences) > rounding).sum()))
    alike = deviation <= rounding
    if alike:
        low, high, p = _of_alike(value, problems, largest)
    else:
        half = error * t_quantile(problems - 1)
        low = max(value - half, -largest)
        high = min(value + half, largest)
        p = two_sided_p(value / error, problems - 1)
    p = max(p, smallest)
    if p >= 0.05:
        low = min(low, 0.0)
        high = max(high, 0.0)
    return Difference(value, error, low, high, p, problems, alike)


def _of_alike(value: float, problems: int, largest: float) -> tuple[float, float, float]:
    """The ends of the interval and p if the difference is `value` for all problems.

    `paired_difference` has the formulas.

    If `largest` is infinite, the interval is NaN, and p is 0; the caller replaces it by `least_p`.
    """
    if math.isinf(largest):
        return math.nan, math.nan, 0.0
    share = 1 - 0.025 ** (1 / problems)
    low = value - share * (largest + value)
    high = value + share * (largest - value)
    p = 2 * (largest / (largest + abs(value))) ** problems
    return low, high, min(p, 1.0)


def _differences(first: ArrayLike, second: ArrayLike, axes: int) -> Floats:
    """First minus second.

    Raises: ValueError unless both have this number of axes, one shape, and finite numbers.
    """
    minuend = as_floats(first)
    subtrahend = as_floats(second)
    if minuend.ndim != axes or minuend.shape != subtrahend.shape:
        shapes = f"{minuend.shape} and {subtrahend.shape}"
        raise ValueError(f"estimates need {axes} axes and the same shape, got {shapes}")
    differences = minuend - subtrahend
    if not np.isfinite(differences).all():
        raise ValueError("estimates must be finite; got NaN or infinity")
    return differences


def _rounding(first: Any, second: Any) -> float:
    """The largest difference that is a rounding error of estimates in these dtypes and sizes.

    It is a quarter of `TOLERANCE`, but at least `ROUNDING`, relative to the largest estimate or to
    1. `TOLERANCE` allows for four operations or more, and an estimate was rounded only once.
    """
    largest = max(abs(as_floats(values)).max(initial=1.0) for values in (first, second))
    relative = max(TOLERANCE.get(precision_of(values), ROUNDING) for values in (first, second))
    return float(largest * max(ROUNDING, relative / 4))


def least_p(differing: int) -> float:
    """The smallest two-sided p-value of the sign-flip test: 2^(1-m) with m non-zero differences.

    That test is exact if the difference of each problem is equally likely to have either sign
    (Fisher 1935). With few non-zero differences, Student's t gives smaller p-values, down to 0 if
    they are equal; use the larger of the two p-values.

    Args:
        differing: number of problems whose difference is more than a rounding error.
    """
    return float(2.0 ** (1 - max(differing, 1)))


def two_sided_p(t: float, degrees: int) -> float:
    """P(|T| > |t|) of Student's t with a whole number of degrees of freedom.

    It is accurate to 1e-14, and at least 1e-14. With theta = arctan(|t| / sqrt(degrees)),
    P(|T| <= |t|) is 2 theta / pi for one degree of freedom and sin(theta) for two. Every two
    further degrees add a term. The term that follows that of d degrees is cos(theta)^2 (d-1) / d
    times as large (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    theta = math.atan(abs(t) / math.sqrt(degrees))
    if degrees % 2:
        inside = 2 / math.pi * theta
        term = 2 / math.pi * math.sin(theta) * math.cos(theta)
    else:
        inside = math.sin(theta)
        term = math.sin(theta) * math.cos(theta) ** 2 / 2
    for d in range(4 - degrees % 2, degrees + 1, 2):
        inside += term
        term *= math.cos(theta) ** 2 * (d - 1) / d
    return max(1.0 - inside, 1e-14)


def t_quantile(degrees: int, level: float = 0.95) -> float:
    """The t with P(|T| <= t) = level, by bisection over theta = arctan(t / sqrt(degrees))."""
    low = 0.0
    high = math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if two_sided_p(math.sqrt(degrees) * math.tan(middle), degrees) > 1 - level:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(high)


class Crossing(NamedTuple):
    """The k at which the curve that is ahead at first falls behind, with a 95 % interval.

    A field is infinite if the curve does not fall behind up to the largest k. Among resampled
    problems, the same curve can be behind from the start; this counts as a crossing at k = 1.
    """

    k: float
    low: float
    high: float


def crossing(first: ArrayLike, second: ArrayLike, resamples: int = 2000, seed: int = 0) -> Crossing:
    """The first k at which two models' curves over k cross, interpolated between whole k.

        k + D(k) / (D(k) - D(k+1)),    D = mean(first - second), whose sign changes at k + 1

    The interval contains the middle 95 % of the crossings over resampled problems (Efron 1979). A
    crossing of resampled problems has the same direction: the model that is ahead at first, on the
    problems themselves, falls behind.

    Args:
        first, second: estimates at k = 1 .. K of problems in the same order, [P, K], such as those
            of `curve`.
        resamples: how often the problems are drawn again, with replacement.
        seed: the seed of the random numbers.

    Returns: the crossing; NaN without problems, or if the curves are equal at every k.

    Raises: ValueError unless both are finite and of the same shape [P, K].
    """
    require_integers(resamples=resamples)
    differences = _differences(first, second, axes=2)
    problems = len(differences)
    mean_difference = differences.sum(axis=0) / max(problems, 1)
    rounding = _rounding(first, second)
    unequal = mean_difference[abs(mean_difference) > rounding]
    if len(unequal) == 0:
        return Crossing(math.nan, math.nan, math.nan)
    # From here on, the differences are those of the curve that is ahead at first minus the other.
    differences = differences * np.sign(unequal[0])
    drawn = np.random.default_rng(seed).integers(problems, size=(resamples, problems))
    resampled = [_falls_behind(differences[places].mean(axis=0), rounding) for places in drawn]
    low, high = np.quantile(resampled, (0.025, 0.975), method="inverted_cdf")
    k = _falls_behind(differences.mean(axis=0), rounding)
    return Crossing(k, float(low), float(high))


def curve(n: ArrayLike, c: ArrayLike) -> Floats:
    """Pass@k of each problem at k = 1 .. K, where K is the smallest n.

    Args:
        n, c: as `pass_at_k` takes them, of shape [P].

    Returns: float64 of shape [P, K].
    """
    sizes = as_floats(n)
    if sizes.size == 0:
        return np.empty((0, 0))
    largest = int(sizes.min())
    return np.stack([np.atleast_1d(pass_at_k(n, c, k)) for k in range(1, largest + 1)], axis=-1)


def _falls_behind(curve: Floats, rounding: float) -> float:
    """The k, interpolated, at which a curve over k = 1 .. K falls below 0.

    Returns: 1 if the curve begins below 0; infinity if it is never below 0.
    """
    below = np.flatnonzero(curve < -rounding)
    if len(below) == 0:
        return math.inf
    before = int(below[0])  # the last k that is not below 0: k = 1 is at index 0
    if before == 0:
        return 1.0
    # np.interp needs ascending abscissas, so the point below 0 comes first.
    return float(np.interp(0.0, curve[[before, before - 1]], [before + 1, before]))


# --- Weights of an unbiased gradient ------------------------------------------------------------


def pass_at_k_weights(rewards: Any, k: int) -> Any:
    """w_i = (k/n) R_i C(n-c, k-1) / C(n-1, k-1), unbiased for Pass@k (RSPO, theorem 4.3).

    sum_i w_i grad log pi(y_i|x) estimates the gradient; advantages are n w_i. For a correct
    response i, the ratio is the fraction of the (k-1)-subsets of the other responses in which all
    are wrong: only to such a subset does response i add the first correct response. All weights of
    a group are 0 where n-c < k-1.

    Args:
        rewards: 0 or 1, of shape [..., n], with c of n correct; an array, or a tensor of PyTorch.

    Returns: weights of the same shape and float dtype (float64 for integers), on the same device.

    Raises: ValueError for other rewards, or unless 1 <= k <= n.
    """
    values = _groups(rewards, k)
    _require_binary(values, "rewards")
    n = values.shape[-1]
    wrong = n - values.sum(axis=-1, keepdims=True).astype(np.int64)
    # With no correct response, `wrong` is n, which is beyond the table. All R_i are then 0.
    fraction_all_wrong = fraction_of_subsets_below(n, k)[np.minimum(wrong, n - 1)]
    return _like(rewards, values * ((k / n) * fraction_all_wrong))


def max_at_k_weights(rewards: Any, k: int) -> Any:
    """Weights that are each response's marginal contribution to the best of k, unbiased for Max@k.

        w_i = (k/n)/C(n-1,k-1) * [R_i C(c_lt, k-1) - sum_{j <= c_lt} R_(j) C(j-1, k-2)]

    with R_(1) <= ... <= R_(n) and c_lt the number of rewards strictly below R_i. It is k/n times
    the average, over the (k-1)-subsets S of the other responses, of max(S + i) - max(S).

    They are computed without cancellation. Because C(m, k-1) = sum_{j <= m} C(j-1, k-2), summation
    by parts turns the bracket into sums of the gaps between neighbouring rewards,

        w_(i) = (k/n) * sum_{m < i} [R_(m+1) - R_(m)] * C(m, k-1) / C(n-1, k-1),     k >= 2,

    in which every term is >= 0 and equal rewards get equal weights. For k = 1, w_i = R_i / n.
    It takes O(n log n) per prompt, for one sort and one prefix sum.

    The formula is theorem C.4 of RSPO. For k >= 2, s^(loo-1) of PKPO (Walder and Karkhanis, arXiv
    2505.15201) is the same estimator.

    Args:
        rewards: finite numbers, of shape [..., n]; an array, or a tensor of PyTorch.

    Returns: weights of the same shape and float dtype (float64 for integers), on the same device.

    Raises: ValueError for NaN or infinite rewards, or unless 1 <= k <= n.
    """
    values = _groups(rewards, k)
    n = values.shape[-1]
    if k == 1:
        return _like(rewards, values / n)
    return _like(rewards, from_gaps(values, (k / n) * fraction_of_subsets_below(n, k)[1:]))


def _like(rewards: Any, weights: Floats) -> Any:
    """Convert weights to the type, float dtype and device of the rewards."""
    if hasattr(rewards, "new_tensor"):  # a tensor of PyTorch
        floats = rewards if rewards.is_floating_point() else rewards.double()
        return floats.new_tensor(weights)
    dtype = np.asarray(rewards).dtype
    return weights.astype(dtype) if dtype.kind == "f" else weights


# --- Whether a function's weights are an unbiased gradient of Pass@k ----------------------------

MOST_SHOWN = 16  # largest number of rewards of a group that a message shows


class Weights(NamedTuple):
    """What a function returned: float64 [..., n], and the precision in which it was computed."""

    values: Floats
    precision: str  # a key of TOLERANCE


class Slope(NamedTuple):
    """The slope F'(p) of what weights maximize on one prompt.

    The expected update follows the gradient of F(p), with F(0) = 0 and

        F'(p) = sum_m Bin(m; n-1, p) a_m,    a_m = n (w+(m+1) - w-(m)),    m = 0 .. n-1

    w+(c) and w-(c) are the weights of a correct and of a wrong response if c of n responses are
    correct, p is the probability that a response is correct, and Bin(m; n-1, p) that of m successes
    in n-1 trials (RL2ML, arXiv 2605.30154).

    coefficients: a_m, [n].
    scale: n times the largest absolute weight; a_m is a difference of numbers of at most this size.
    precision: the dtype of the weights, a key of TOLERANCE.
    """

    coefficients: Floats
    scale: float
    precision: str

    @property
    def tolerance(self) -> float:
        """The error that the coefficients may have by rounding, relative to `scale`."""
        return tolerance_of(self.precision, len(self.coefficients))

    def fits(self) -> list[int]:
        """The j for which F is a positive constant times Pass@j, up to rounding.

        There are several if the precision is too low to tell them apart.

        The slope of Pass@j, j (1-p)^(j-1), has a_m = j C(n-1-m, j-1) / C(n-1, j-1).
        """
        n = len(self.coefficients)
        first = float(self.coefficients[0])
        error = self.tolerance * self.scale
        if first <= error:
            return []
        fits = []
        for j in range(1, n + 1):
            expected = first * fraction_of_subsets_below(n, j)[::-1]
            if (abs(self.coefficients - expected) <= error).all():
                fits.append(j)
        return fits

    @property
    def unbiased_for(self) -> int | None:
        """The only j of `fits`; None if it has none or several."""
        fits = self.fits()
        return fits[0] if len(fits) == 1 else None

    @property
    def factor(self) -> float:
        """F divided by Pass@j with j = `unbiased_for`; NaN if that is None."""
        j = self.unbiased_for
        return math.nan if j is None else float(self.coefficients[0]) / j


def tolerance_of(precision: str, n: int) -> float:
    """`TOLERANCE` for groups of n responses.

    It grows with n above 16, because larger sums and logarithms of larger factorials lose more
    digits.
    """
    return TOLERANCE[precision] * max(1.0, n / 16)


class Answer(NamedTuple):
    """The answer of `check`: true if the function passed. Its text says why."""

    passed: bool
    lines: list[str]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(function: WeightFunction, k: int, n: int, factor: float | None = None) -> Answer:
    """Whether a function's weights are an unbiased gradient of Pass@k, up to a positive factor.

    The answer is computed from the weights of the n + 1 groups of 0/1 rewards; see `Slope`. Its
    accuracy depends on the dtype that the function returns, whose rounding errors are allowed
    (`TOLERANCE`). With bfloat16, a bias below 3 % cannot be seen, and all k are told apart for
    n <= 16 only.

    Args:
        function: takes rewards [..., n] (a float64 array) and k, returns weights or advantages
            [..., n] as an array or as a tensor of PyTorch.
        k: passed to the function; it is checked for Pass@k with this k.
        n: number of responses of a group.
        factor: also require that F is this number times Pass@k, such as 1 for weights, n for
            advantages. By default any positive factor passes, and the verdict names it.

    Returns: whether it passed, and lines of which the last is the verdict.

    Raises: ValueError if the function fails, with the shape and dtype of the rewards that it was
        given; if it returns no weights, or changes its rewards; if weights depend on the order of
        the responses or on other groups; or if k or n is not an integer of at least 1.
    """
    require_integers(k=k, n=n)
    return answer_of({k: slope_of(function, k, n)}, k, n, factor)


def answer_of(slopes: Mapping[int, Slope], k: int, n: int, factor: float | None = None) -> Answer:
    """The answer of `check` for a function whose slope with this k is known.

    Args:
        slopes: the slope of the weights for each k with which the function was called, including
            `k`. The verdict names the factor, such as k/n, only if the name fits all these slopes.
    """
    slope = slopes[k]
    factors = {j: other.factor for j, other in slopes.items() if other.unbiased_for == j}
    passed = k in factors
    if passed:
        verdict = f"unbiased for {_named(factors, k, n, slope.tolerance)}Pass@{k} with n = {n}"
        if factor is not None and not equal(slope.factor, factor, slope.tolerance):
            passed = False
            verdict += f", not for {factor:g} times Pass@{k}"
    elif len(slope.fits()) > 1:
        verdict = f"undecided for Pass@{k} with n = {n} in {slope.precision}"
    else:
        verdict = f"not unbiased for Pass@{k} with n = {n}"
    return Answer(passed, _notes(slope, k) + [verdict])


def _notes(slope: Slope, k: int) -> list[str]:
    """A line on what the precision cannot decide, if there is something to say."""
    if slope.precision != "float64":
        allowed = f"differences up to {slope.tolerance:.2g} of the largest weight count as rounding"
        return [f"computed in {slope.precision}: {allowed}, so a smaller bias is not seen"]
    if not slope.fits() and k in slope._replace(precision="float32").fits():
        return ["as unbiased as float32 allows: a function that computes in float32 must return it"]
    return []


def _named(factors: Mapping[int, float], k: int, n: int, tolerance: float) -> str:
    """The factor of k in words, such as "k/n = 0.5 times "; empty if it is 1.

    The names are those that fit the factors of every k.
    """
    if equal(factors[k], 1.0, tolerance):
        return ""
    names = []
    for name in _ratios(k, n):
        if all(equal(factor, _ratios(j, n)[name], tolerance) for j, factor in factors.items()):
            names.append(name)
    number = f"{factors[k]:.4g} times "
    return f"{' or '.join(names)} = {number}" if names else number


def _ratios(k: int, n: int) -> dict[str, float]:
    """Numbers that often occur as factors, by their names: n, k/n, (n-k+1)/n and so on."""
    parts = {"1": 1, "n": n, "k": k, "(n-k)": n - k, "(n-k+1)": n - k + 1}
    ratios = {}
    for divisor in ("1", "n", "k"):
        for dividend in parts:
            if dividend != divisor:
                name = dividend if divisor == "1" else f"{dividend}/{divisor}"
                ratios[name] = parts[dividend] / parts[divisor]
    return ratios


def equal(factor: float, other: float, tolerance: float) -> bool:
    """Whether two factors are equal up to rounding.

    A difference of 1e-6 is allowed too, because weights may add 1e-6 to a divisor, as GRPO does.
    """
    return math.isclose(factor, other, rel_tol=max(1e-6, tolerance))


def slope_of(function: WeightFunction, k: int, n: int) -> Slope:
    """The slope of the weights of a function.

    Raises: ValueError as `check` does, also if the function does not treat all responses alike.
    """
    weights = exchangeable_weights(function, binary_groups(n), k)
    m = np.arange(n)
    correct = weights.values[m + 1, 0]  # the first response of a group is correct, the last wrong
    wrong = weights.values[m, -1]
    return Slope(n * (correct - wrong), n * float(abs(weights.values).max()), weights.precision)


def binary_groups(n: int) -> Floats:
    """A group for each number of correct responses, (n+1, n): row c has c ones, then zeros."""
    return np.tril(np.ones((n + 1, n)), -1)


def exchangeable_weights(function: WeightFunction, groups: Floats, k: int) -> Weights:
    """Compute the weights of groups [groups, n], and check that a function treats responses alike.

    Raises: ValueError whose message is one line and names a group, if weights depend on the order
        of the responses or on the other groups; ValueError as `weights_of` does.
    """
    weights = weights_of(function, groups, k)
    values = weights.values
    n = groups.shape[-1]
    # Each trial has rewards, and the weights that they must get. The rewards are those of `groups`
    # with the responses in another order, or a single group, with and without the axis of groups.
    trials = []
    shuffled = np.random.default_rng(0).permutation(n)
    for order in (np.arange(n)[::-1], np.roll(np.arange(n), 1), shuffled):
        trials.append(("the order of the responses", groups[:, order], values[:, order]))
    for place in np.linspace(0, len(groups) - 1, 5).astype(int):
        trials.append(("the other groups", groups[[place]], values[[place]]))
        trials.append(("the other groups", groups[place], values[place]))
    error = tolerance_of(weights.precision, n) * float(abs(values).max())
    for what, rewards, expected in trials:
        again = weights_of(function, rewards, k).values
        differ = (abs(again - expected) > error).any(axis=-1)
        if differ.any():
            group = tuple(np.argwhere(differ)[0])
            raise ValueError(
                f"{name_of(function)} must not depend on {what}, got {shown(again[group])} in "
                f"place of {shown(expected[group])} for {shown(rewards[group])}"
            )
    return weights


def weights_of(function: WeightFunction, rewards: Floats, k: int) -> Weights:
    """Call a function with rewards [..., n] and k, and check what it returns.

    Raises: ValueError whose message is one line, if the function fails, changes its rewards, or
        returns no weights.
    """
    name = name_of(function)
    argument = rewards.copy()
    try:
        returned = function(argument, k)
    except Exception as error:  # a user's function may raise any type
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        arguments = f"rewards of shape {rewards.shape}, dtype {rewards.dtype}, and k = {k}"
        raise ValueError(f"{name} failed for {arguments}: {reason}") from error
    if not np.array_equal(argument, rewards):
        raise ValueError(f"{name} must not change the rewards that it is given")
    return as_weights(returned, rewards, name)


def as_weights(returned: Any, rewards: Floats, name: str) -> Weights:
    """Convert the weights that a function returned to float64, and note their precision.

    Args:
        returned: an array, or a tensor of PyTorch.
        rewards: what the function was given; the weights must have the same shape.
        name: the name of the function, for messages.

    Raises: ValueError for another shape, and for weights that are not finite real numbers.
    """
    shape = tuple(returned.shape) if hasattr(returned, "dtype") else type(returned).__name__
    if shape != rewards.shape:
        raise ValueError(f"{name} must return an array of shape {rewards.shape}, got {shape}")
    precision = precision_of(returned)
    if precision not in TOLERANCE:
        allowed = f"allowed: {', '.join(TOLERANCE)}"
        raise ValueError(f"{name} must return real numbers, got dtype {precision}; {allowed}")
    values = as_floats(returned)
    if not np.isfinite(values).all():
        index = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
        wrong = f"{values[index]} at index {index} for the rewards {shown(rewards[index[:-1]])}"
        raise ValueError(f"{name} must return finite weights, got {wrong}")
    return Weights(values, precision)


def name_of(function: WeightFunction) -> str:
    """The name of a function in messages."""
    return getattr(function, "__name__", "the weight function")


def shown(group: Floats) -> str:
    """The numbers of a group as a message shows them; of a large group, only the first ones."""
    numbers = [f"{value:g}" for value in group[:MOST_SHOWN]]
    if len(group) > MOST_SHOWN:
        numbers.append("...")
    return f"[{', '.join(numbers)}]"


# --- The test of this file ------------------------------------------------------------------------


def self_test(largest: int = 8) -> int:
    """Compare the functions with their definitions, in exact fractions over all subsets.

    Args:
        largest: the largest n.

    Returns: the number of values that were compared.

    Raises: AssertionError that names the function and its arguments.
    """
    compared = 0

    def same(what: str, result: Any, expected: Any) -> None:
        """Raise AssertionError, which says what differs, unless the result is as expected."""
        nonlocal compared
        values = np.ravel(as_floats(result))
        exact = [float(value) for value in np.ravel(expected)]
        compared += len(exact)
        if len(values) != len(exact) or not np.allclose(values, exact, rtol=1e-12, atol=1e-14):
            raise AssertionError(f"{what}: got {values}, expected {exact}")

    for n in range(1, largest + 1):
        # Rewards of both signs for Max@k, some of them equal.
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
    """Max@k, its variance (0 if 2k > n) and the weights, from their definitions by subsets."""
    n = len(rewards)
    subsets = list(itertools.combinations(range(n), k))
    best = {subset: max(rewards[i] for i in subset) for subset in subsets}
    estimate = mean(best.values())
    pairs = [best[s] * best[t] for s in subsets for t in subsets if not set(s) & set(t)]
    variance = estimate**2 - mean(pairs) if pairs else Fraction(0)
    weights = []
    for i, reward in enumerate(rewards):
        gains = []
        for others in itertools.combinations(rewards[:i] + rewards[i + 1 :], k - 1):
            if others:
                gains.append(max(reward, max(others)) - max(others))
            else:
                gains.append(reward)
        weights.append(Fraction(k, n) * mean(gains))
    return estimate, variance, weights


if __name__ == "__main__":
    print(f"{self_test()} values are those of exact fractions")
