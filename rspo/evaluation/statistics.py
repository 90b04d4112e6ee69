"""Standard errors of means over problems and training seeds, and multiple tests.

Three sources of error, each estimated separately (docs/statistics.md):

within    sampling again, with the same problems and policies
problems  other problems of the same benchmarks; includes the error within
seeds     training again with other seeds

All functions are pure. They take the estimates of each problem, which `rspo.estimators` computes.
Benchmarks are strata: arrays hold the problems of one benchmark after another, and `sizes` has the
number of problems of each benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
NORMAL_QUANTILE = 1.96  # half of the width of a 95 % interval, in standard errors
LEVEL = 0.05  # a two-sided p-value below it, adjusted for the number of tests, is significant
ENOUGH_PROBLEMS = 30  # with fewer, the mean over them is not near a normal distribution
SMALLEST_P = 1e-50  # the smallest p-value that is computed


def least_p_of_seeds(seeds: int) -> float:
    """The smallest two-sided p-value to print for a number of training seeds.

    Smaller p-values are computed, and adjusted for the number of tests. But they assume that
    differences between seeds are normally distributed, which so few seeds cannot show: if one
    training in ten collapses, three seeds usually contain no collapse.

    Returns: 0 for fewer than two seeds, which have no error over seeds.
    """
    if seeds < 2:
        return 0.0
    return 0.01 if seeds < 5 else 0.001


class PValues(NamedTuple):
    """The p-values for a claim about an estimate and for its opposite, and the two-sided one."""

    p_for: float
    p_against: float
    two_sided: float


@dataclass(frozen=True)
class Estimate:
    """A value with its standard errors; NaN where an error cannot be estimated.

    error_problems: error over problems, which are drawn separately within each benchmark.
    error_seeds: error over training seeds; 0 if nothing was trained, NaN with one seed.
    error: error over both, or over problems only where error_seeds is NaN.
    degrees: degrees of freedom of error_problems; for a mean of runs or steps, those of error.
    seeds: number of training seeds; 0 if nothing was trained.
    """

    value: float
    error_problems: float
    error_seeds: float
    error: float
    degrees: float
    seeds: int = 0

    def interval(self) -> tuple[float, float]:
        """The 95 % interval, value -+ t * error; NaN without an error."""
        half = self.error * self.critical((1 - CONFIDENCE) / 2)
        return self.value - half, self.value + half

    def critical(self, tail: float) -> float:
        """The critical t: if the true value is 0, P(estimate > t standard errors) is `tail`.

        With errors over problems and over seeds, it is that of Cochran and Cox (1950), the mean of
        both t, weighted by their variances:

            t = (error_problems^2 t_problems + error_seeds^2 t_seeds)
                / (error_problems^2 + error_seeds^2)

        It is at least as large as Satterthwaite's in almost all cases. Satterthwaite's intervals
        are too narrow with two or three seeds, since a variance over seeds that is small by chance
        also gets many degrees of freedom (`python -m benchmarks coverage` has both).
        """
        from scipy.special import stdtrit  # here, because short commands start faster without

        # `stdtrit` gives the quantile of Student's t, which is below 0 for a tail below 1/2.
        t_problems = -float(stdtrit(self.degrees, tail))
        if self.seeds < 2 or not self.error_seeds > 0:  # NaN is not above 0 either
            return t_problems
        t_seeds = -float(stdtrit(self.seeds - 1, tail))
        if np.isnan(self.error_problems):  # each run has one value
            return t_seeds
        problem_variance = self.error_problems**2
        seed_variance = self.error_seeds**2
        weighted = problem_variance * t_problems + seed_variance * t_seeds
        return weighted / (problem_variance + seed_variance)

    def p_above(self, threshold: float) -> float:
        """One-sided p-value of "the true value is above the threshold".

        NaN without an error, and with two seeds, which are too few for a p-value.
        """
        if np.isnan(self.error) or self.seeds == 2:
            return np.nan
        distance = self.value - threshold
        if distance == 0:
            return 0.5
        tail = self._tail(abs(distance))
        return tail if distance > 0 else 1 - tail

    def p_below(self, threshold: float) -> float:
        """One-sided p-value of "the true value is below the threshold"; NaN as in `p_above`."""
        return replace(self, value=-self.value).p_above(-threshold)

    def p_values(self, margin: float | None = None) -> PValues:
        """The p-values of the claim that the true value is above 0.

        With a margin, they are those of the claim that it is between -margin and margin. This is an
        equivalence, which takes two one-sided tests, so its p-value is not doubled.
        """
        if margin is None:
            p_for = self.p_above(0.0)
            p_against = self.p_below(0.0)
        else:
            p_for = max(self.p_above(-margin), self.p_below(margin))
            p_against = min(self.p_above(margin), self.p_below(-margin))
        if np.isnan(p_for):  # there is no error, or there are two seeds
            return PValues(p_for, p_against, p_for)
        is_equivalence = margin is not None and p_for < p_against
        two_sided = p_for if is_equivalence else 2 * min(p_for, p_against)
        return PValues(p_for, p_against, two_sided)

    def _tail(self, distance: float) -> float:
        """The probability of an estimate this far above a true value of 0; inverts `critical`."""
        from scipy.optimize import brentq
        from scipy.special import stdtr

        with np.errstate(divide="ignore"):  # error 0: t is infinite
            t = float(np.divide(distance, self.error))
        if self.seeds < 2 or np.isinf(t):
            return float(stdtr(self.degrees, -t))
        # No p-value below SMALLEST_P is computed; the root has to lie between it and 0.5.
        if self.critical(SMALLEST_P) <= t:
            return SMALLEST_P

        def excess(log_tail: float) -> float:
            return self.critical(np.exp(log_tail)) - t

        # The root is sought over logarithms, because tails differ by orders of magnitude.
        return float(np.exp(brentq(excess, np.log(SMALLEST_P), np.log(0.5))))


def mean_of_scores(values: Floats, sizes: Sequence[int], trained: bool = True) -> Estimate:
    """Mean over training seeds and problems, such as that of differences of two methods.

    A difference of methods is formed within each seed and problem first, because seed s trains
    every method on the same prompts with the same random numbers. The difference subtracts what the
    methods have in common, and the variance over seeds is that of the differences themselves. Let
    x[s, j] be the value of seed s at problem j. The variance of the mean has the unbiased estimate

        var_j(mean_s x) / P  +  var_s(mean_j x) / S  -  MS / (S P)

    of the two-way layout without replicates. MS, the mean square of the interaction, is part of
    both other terms, so it is subtracted once. Here the P problems are stratified, and the result
    is at least the first term.

    Args:
        values: [seeds, problems].
        sizes: number of problems of each benchmark.
        trained: whether the first axis has training seeds; False for base policies alone.
    """
    seeds, total = values.shape
    value = float(values.mean())
    problem_variance = stratified_variance(values.mean(axis=0), sizes)
    error_problems = float(np.sqrt(problem_variance))
    degrees = float(total - len(sizes))
    if not trained:
        return Estimate(value, error_problems, 0.0, error_problems, degrees)
    if seeds == 1:
        return Estimate(value, error_problems, np.nan, error_problems, degrees, seeds)
    seed_variance = float(values.mean(axis=1).var(ddof=1)) / seeds
    interaction = 0.0
    for benchmark in np.split(values, np.cumsum(sizes[:-1]), axis=1):
        size = benchmark.shape[1]
        if size > 1:  # MS / (S P) of this benchmark, times the square of its weight, size / total
            interaction += _interaction(benchmark) * size / (seeds * total**2)
    error_seeds = float(np.sqrt(seed_variance))
    error = float(np.sqrt(problem_variance + max(0.0, seed_variance - interaction)))
    return Estimate(value, error_problems, error_seeds, error, degrees, seeds)


def mean_of_runs(values: ArrayLike) -> Estimate:
    """Mean of one value of each training seed, by Student's t; NaN error for one seed.

    Args:
        values: such as differences of two methods' runs with the same seed, [seeds].
    """
    runs = np.asarray(values, dtype=float)
    mean = mean_of_steps(runs)
    return replace(mean, error_seeds=mean.error, seeds=len(runs))


def mean_of_steps(values: ArrayLike) -> Estimate:
    """Mean of independent values, such as of the steps of a run; NaN error for one value."""
    steps = np.asarray(values, dtype=float)
    mean = float(steps.mean())
    if len(steps) < 2:
        return Estimate(mean, np.nan, np.nan, np.nan, np.nan, 1)
    error = float(steps.std(ddof=1) / np.sqrt(len(steps)))
    return Estimate(mean, np.nan, np.nan, error, len(steps) - 1.0, 1)


def stratified_variance(values: Floats, sizes: Sequence[int]) -> float:
    """Variance of the mean over all problems, which are drawn separately within each benchmark.

        sum_b (P_b / P)^2 * var_b / P_b

    NaN if a benchmark has a single problem.

    Args:
        values: [problems].
    """
    if min(sizes) < 2:
        return float("nan")
    benchmarks = np.split(values, np.cumsum(sizes[:-1]))
    return float(sum(part.var(ddof=1) * len(part) for part in benchmarks) / len(values) ** 2)


def score_interval(value: float, error: float, problems: int) -> tuple[float, float]:
    """A 95 % interval of a mean of few values between 0 and 1.

    It lies between 0 and 1, and has a width even if all values are equal. It is Wilson's score
    interval (1927), with Student's quantile t for `problems` - 1 degrees of freedom instead of the
    normal quantile:

        (value + t^2/2n -+ t sqrt(value (1 - value)/n + t^2/4n^2)) / (1 + t^2/n)

    n is the number of trials that would have this error, value (1 - value) / error^2. If the error
    is 0, n is `problems`.

    NaN for a single problem, and without an error.
    """
    from scipy.special import stdtrit

    if problems < 2 or np.isnan(error):
        return np.nan, np.nan
    trials = value * (1 - value) / error**2 if error > 0 else problems
    t = float(stdtrit(problems - 1, (1 + CONFIDENCE) / 2))
    half = t * np.sqrt(value * (1 - value) / trials + t**2 / (4 * trials**2))
    middle = value + t**2 / (2 * trials)
    low = (middle - half) / (1 + t**2 / trials)
    high = (middle + half) / (1 + t**2 / trials)
    return max(0.0, float(low)), min(1.0, float(high))


def resampled_problems(sizes: Sequence[int], resamples: int, seed: int) -> NDArray[np.int64]:
    """Indices of problems drawn with replacement within each benchmark.

    They depend on the arguments only, so every policy is resampled alike and differences between
    policies are paired.

    Args:
        sizes: number of problems of each benchmark.

    Returns: [resamples, problems].
    """
    rng = np.random.default_rng(seed)
    drawn = []
    start = 0  # index of the benchmark's first problem
    for size in sizes:
        drawn.append(start + rng.integers(size, size=(resamples, size)))
        start += size
    return np.concatenate(drawn, axis=1)


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values (1979), valid under any dependence between the tests.

    In ascending order, the i-th of m is max over j <= i of (m-j+1) p_(j), at most 1.
    """
    p = np.asarray(p_values, dtype=np.float64)  # NaN counts as a test and stays NaN
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
