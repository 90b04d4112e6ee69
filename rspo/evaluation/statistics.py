"""Standard errors of means over problems, differences of methods, and multiple tests.

Three sources of error, each estimated separately (docs/statistics.md):

within    sampling again, with the same problems and policies
problems  other problems of the same benchmarks; includes the error within
seeds     training again with other seeds

Pure functions. `rspo.estimators` estimates each problem. Benchmarks are strata: arrays
hold the problems of one benchmark after another, and `sizes` is the number of problems of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
NORMAL = 1.96  # half of a 95 % interval, in standard errors
LEVEL = 0.05  # of two-sided tests, with p-values adjusted for their number
ROUNDING = 1e-9  # of the difference of two estimates of one problem


@dataclass(frozen=True)
class Part:
    """One method's part of a combination of methods: its estimates times its weight.

    trained: whether training seeds contribute error; False for a base policy.
    """

    values: Floats  # [seeds, problems]
    trained: bool = True


@dataclass(frozen=True)
class Estimate:
    """A value with its standard errors; NaN where an error cannot be estimated.

    error_problems: error over problems, each benchmark's drawn from its own population.
    error_seeds: error over training seeds; 0 if nothing was trained, NaN with one seed.
    error: error over both, or over problems only where error_seeds is NaN.
    degrees: degrees of freedom of Student's t for value/error.
    """

    value: float
    error_problems: float
    error_seeds: float
    error: float
    degrees: float

    def interval(
        self, confidence: float = CONFIDENCE, largest: float = np.inf
    ) -> tuple[float, float]:
        """value -+ t * error; NaN without an error.

        Args:
            largest: the interval is within -largest and largest: 1 for differences of two Pass@k
                or pass^k, which cannot be larger.
        """
        from scipy.special import stdtrit  # here, because short commands start faster without

        half = self.error * float(stdtrit(self.degrees, (1 + confidence) / 2))
        low, high = np.clip([self.value - half, self.value + half], -largest, largest)
        return float(low), float(high)

    def p_above(self, threshold: float) -> float:
        """One-sided p-value of "the true value is above the threshold"; 1 without an error."""
        from scipy.special import stdtr

        if np.isnan(self.error):
            return 1.0
        if self.value == threshold:
            return 0.5
        with np.errstate(divide="ignore"):  # error 0: t is infinite
            return float(stdtr(self.degrees, np.divide(threshold - self.value, self.error)))

    def p_below(self, threshold: float) -> float:
        """One-sided p-value of "the true value is below the threshold"; 1 without an error."""
        return replace(self, value=-self.value).p_above(-threshold)


def combine(parts: Sequence[Part], sizes: Sequence[int]) -> Estimate:
    """Sum over methods of their means over seeds and problems, such as a difference of two methods.

    All methods answer the same problems, so the error over problems is that of each problem's sum
    over methods (for two methods, of the paired differences). Seeds of different methods are
    treated as independent, although seed s trains every method on the same prompts with the same
    random numbers: with few seeds, a paired t-test has too few degrees of freedom. With x[s, j] the
    estimate of seed s on problem j, the variance of a method's mean has the unbiased estimate

        var_j(mean_s x) / P  +  var_s(mean_j x) / S  -  MS / (S P)

    of the two-way layout without replicates. MS, the mean square of the interaction, is part of
    both other terms, so it is subtracted once. Here the P problems are stratified, and the first
    term is that of the sum over all methods. The result is at least each of the first two terms.
    Degrees of freedom by Satterthwaite (1946).
    """
    total = sum(sizes)
    strata = list(zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True))
    by_problem = np.sum([part.values.mean(axis=0) for part in parts], axis=0)
    of_problems = stratified_variance(by_problem, sizes)
    pieces = [(of_problems, float(total - len(sizes)))]
    of_seeds, shared, known = 0.0, 0.0, True
    for part in parts:
        seeds = len(part.values)
        if not part.trained:
            continue
        if seeds == 1:
            known = False
            continue
        of_runs = part.values.mean(axis=1).var(ddof=1) / seeds
        of_seeds += of_runs
        pieces.append((of_runs, seeds - 1.0))
        for start, size in strata:
            if size > 1:
                both = _interaction(part.values[:, start : start + size])
                shared += both * size / (seeds * total**2)
    variance = max(of_problems + of_seeds - shared, of_problems, of_seeds)
    if not known:
        of_seeds, variance = np.nan, of_problems
    if variance == of_problems:  # seeds differ no more than samples do
        pieces = pieces[:1]
    return Estimate(
        float(by_problem.mean()),
        float(np.sqrt(of_problems)),
        float(np.sqrt(of_seeds)),
        float(np.sqrt(variance)),
        _satterthwaite(variance, pieces),
    )


def least_p(differing: int) -> float:
    """The smallest two-sided p-value of the sign-flip test, 2^(1-m) with m problems that differ.

    That test is exact if each problem's difference is as likely to have either sign. With few such
    problems, Student's t gives smaller p-values, down to 0 if their differences are equal; the
    larger of the two is to be used.

    Args:
        differing: number of problems whose difference is above `ROUNDING`.
    """
    return float(2.0 ** (1 - max(differing, 1)))


def difference_of_runs(higher: ArrayLike, lower: ArrayLike) -> Estimate:
    """Mean of one method's training runs minus another's, by Welch's t-test; one value per run.

    Runs with the same seed share prompts and random numbers, which Welch's t ignores (`combine`
    says why). The error is NaN where a method has a single run.
    """
    first, second = np.asarray(higher, dtype=float), np.asarray(lower, dtype=float)
    value = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
        return Estimate(value, np.nan, np.nan, np.nan, np.nan)
    pieces = [(runs.var(ddof=1) / len(runs), len(runs) - 1.0) for runs in (first, second)]
    variance = sum(piece for piece, _ in pieces)
    error = float(np.sqrt(variance))
    return Estimate(value, np.nan, error, error, _satterthwaite(variance, pieces))


def mean_of_cells(values: ArrayLike) -> Estimate:
    """Mean of independent values, one per cell, by Student's t; the error is NaN for one value."""
    cells = np.asarray(values, dtype=float)
    mean = float(cells.mean())
    if len(cells) < 2:
        return Estimate(mean, np.nan, np.nan, np.nan, np.nan)
    error = float(cells.std(ddof=1) / np.sqrt(len(cells)))
    return Estimate(mean, np.nan, np.nan, error, len(cells) - 1.0)


def stratified_variance(values: Floats, sizes: Sequence[int]) -> float:
    """Variance of the mean over all problems, each benchmark's drawn from its own population.

        sum_b (P_b / P)^2 * var_b / P_b

    NaN if a benchmark has a single problem.

    Args:
        values: [problems].
    """
    if min(sizes) < 2:
        return float("nan")
    benchmarks = np.split(values, np.cumsum(sizes[:-1]))
    return float(sum(part.var(ddof=1) * len(part) for part in benchmarks) / len(values) ** 2)


def resampled_problems(sizes: Sequence[int], resamples: int, seed: int) -> NDArray[np.int64]:
    """Indices of problems drawn with replacement within each benchmark.

    They depend on the arguments only, so every policy is resampled alike and differences between
    policies are paired.

    Args:
        sizes: number of problems of each benchmark.

    Returns: [resamples, problems].
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    drawn = [
        start + rng.integers(size, size=(resamples, size))
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(drawn, axis=1)


def ratio_of_means(above: ArrayLike, below: ArrayLike) -> tuple[float, float, float]:
    """mean(above) / mean(below) over the same prompts, with its 95 % interval.

    NaN without a denominator: for example, no response is correct and no gradient varies.
    """
    first, second = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    if second.mean() == 0:
        return np.nan, np.nan, np.nan
    ratio = float(first.mean() / second.mean())
    error = float((first - ratio * second).std(ddof=1) / np.sqrt(len(first)) / second.mean())
    return ratio, ratio - NORMAL * error, ratio + NORMAL * error


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values (1979), valid under any dependence between the tests.

    In ascending order, the i-th of m is max over j <= i of (m-j+1) p_(j), at most 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled) if len(p) else scaled
    return adjusted


def _interaction(values: Floats) -> float:
    """Mean square of the interaction of seeds and problems on one benchmark; values [seeds, P]."""
    seeds, problems = values.shape
    residual = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    return float((residual**2).sum() / ((seeds - 1) * (problems - 1)))


def _satterthwaite(variance: float, pieces: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a variance estimated as a sum of pieces (variance, degrees)."""
    spread = sum(piece**2 / degrees for piece, degrees in pieces if degrees > 0)
    return variance**2 / spread if spread > 0 else max(degrees for _, degrees in pieces)
