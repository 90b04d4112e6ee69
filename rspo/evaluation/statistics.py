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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rspo.passk import ROUNDING

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
NORMAL = 1.96  # half of a 95 % interval, in standard errors
LEVEL = 0.05  # of two-sided tests, with p-values adjusted for their number
FEW = 30  # problems, below which the mean over them is not near a normal distribution


@dataclass(frozen=True)
class SeedVariance:
    """What the variances over seeds of several methods have in common.

    A variance with few seeds is a lottery. Empirical Bayes (Smyth 2004, doi:10.2202/1544-6115.1027,
    as in limma) takes the variances s^2 of all methods, with d = seeds - 1 degrees of freedom each,
    as draws around a common one, s0^2 with d0 degrees of freedom, and replaces each by

        (d0 s0^2 + d s^2) / (d0 + d),    with d0 + d degrees of freedom, at most the sum of all d.

    They are pooled (d0 is infinite) unless Bartlett's test finds them unequal at the level `LEVEL`,
    or if they differ no more than chance explains.

    variance, degrees: s0^2 and d0; NaN and 0 where fewer than two methods have several seeds.
    sum_of_degrees: the sum of d over methods, which no sum of their variances exceeds, also where
        they are not moderated; infinite where no method is known to have several seeds.
    methods: with several seeds.
    p_equal: of Bartlett's test that all variances are equal; NaN where it cannot be tested.
    """

    variance: float = np.nan
    degrees: float = 0.0
    sum_of_degrees: float = np.inf
    methods: int = 0
    p_equal: float = np.nan

    @classmethod
    def of(cls, runs: Sequence[ArrayLike]) -> "SeedVariance":
        """Args: runs: of each method, a value for each seed; those with one seed are left out."""
        from scipy.special import digamma, polygamma  # here, because they are slow to import
        from scipy.stats import bartlett

        known = [np.asarray(one, dtype=float) for one in runs if np.size(one) > 1]
        own = np.array([one.var(ddof=1) for one in known])
        varies = own > ROUNDING**2  # others are equal by chance
        d = np.array([len(one) - 1.0 for one in known])
        if len(known) < 2 or not varies.any():
            of_all = float(d.sum()) if len(known) else np.inf
            return cls(sum_of_degrees=of_all, methods=len(known))
        pooled = cls(float((d * own).sum() / d.sum()), np.inf, float(d.sum()), len(known))
        if varies.sum() < 2:
            return pooled
        test = bartlett(*(one for one, does in zip(known, varies, strict=True) if does))
        pooled = replace(pooled, p_equal=float(test.pvalue))
        own, d = own[varies], d[varies]
        centred = np.log(own) - digamma(d / 2) + np.log(d / 2)
        excess = float(centred.var(ddof=1) - polygamma(1, d / 2).mean())
        if pooled.p_equal >= LEVEL or excess <= 0:
            return pooled
        half = _inverse_trigamma(excess)
        common = float(np.exp(centred.mean() + digamma(half) - np.log(half)))
        return replace(pooled, variance=common, degrees=2 * half)

    def moderate(self, variance: float, degrees: float) -> tuple[float, float]:
        """A method's variance over seeds with what is known from the others, and its degrees."""
        if self.degrees == 0:
            return variance, degrees
        if np.isinf(self.degrees):
            return self.variance, self.sum_of_degrees
        both = self.degrees + degrees
        moderated = (self.degrees * self.variance + degrees * variance) / both
        return moderated, min(both, self.sum_of_degrees)


@dataclass(frozen=True)
class Part:
    """One method's part of a sum over methods: a weight times its estimates.

    trained: whether training seeds contribute error; False for a base policy.
    of_seeds: the variances over seeds of all methods of the run, each of its unweighted values.
    """

    values: Floats  # [seeds, problems]
    weight: float = 1.0
    trained: bool = True
    of_seeds: SeedVariance = SeedVariance()


class PValues(NamedTuple):
    """p-values of a claim about an estimate: one-sided, of the opposite, and two-sided."""

    p_for: float
    p_against: float
    two_sided: float


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

    def interval(self, largest: float = np.inf) -> tuple[float, float]:
        """The 95 % interval, value -+ t * error; NaN without an error.

        Args:
            largest: the interval is within -largest and largest: 1 for differences of two Pass@k
                or pass^k, which cannot be larger.
        """
        from scipy.special import stdtrit  # here, because short commands start faster without

        half = self.error * float(stdtrit(self.degrees, (1 + CONFIDENCE) / 2))
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

    def p_values(self, margin: float | None = None) -> PValues:
        """Of the claim that the true value is above 0, or with a margin between -margin and margin.

        The latter is an equivalence, which takes two one-sided tests: its p-value is not doubled.
        """
        if margin is None:
            p_for, p_against = self.p_above(0.0), self.p_below(0.0)
        else:
            p_for = max(self.p_above(-margin), self.p_below(margin))
            p_against = min(self.p_above(margin), self.p_below(-margin))
        is_equivalence = margin is not None and p_for < p_against
        two_sided = p_for if is_equivalence else min(1.0, 2 * min(p_for, p_against))
        return PValues(p_for, p_against, two_sided)


def combine(parts: Sequence[Part], sizes: Sequence[int]) -> Estimate:
    """Sum over methods of their means over seeds and problems, such as a difference of two methods.

    All methods answer the same problems, so the error over problems is that of each problem's sum
    over methods (for two methods, of the paired differences). Seeds of different methods are
    treated as independent, although seed s trains every method on the same prompts with the same
    random numbers: with few seeds, a paired t-test has too few degrees of freedom. With x[s, j] the
    estimate of seed s on problem j, the variance of a method's mean has the unbiased estimate

        var_j(mean_s x) / P  +  var_s(mean_j x) / S  -  MS / (S P)

    of the two-way layout without replicates. MS, the mean square of the interaction, is part of
    both other terms, so it is subtracted once. Here the P problems are stratified, the first term
    is that of the sum over all methods, and the variance over seeds is moderated (`SeedVariance`).
    The result is at least the first term. A part of weight 0 counts for nothing. Degrees of freedom
    by Satterthwaite (1946), at least those of the least certain term: his formula has no terms that
    are subtracted.

    Args:
        sizes: number of problems of each benchmark.
    """
    total = sum(sizes)
    strata = list(zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True))
    by_problem = np.sum([part.weight * part.values.mean(axis=0) for part in parts], axis=0)
    of_problems = stratified_variance(by_problem, sizes)
    pieces: list[tuple[float, float]] = []
    pools: list[SeedVariance] = []
    shared, known = 0.0, True
    trained = [part for part in parts if part.trained and part.weight != 0]
    for part in trained:
        seeds = len(part.values)
        if seeds == 1:
            known = False
            continue
        pools.append(part.of_seeds)
        own = part.values.mean(axis=1).var(ddof=1)
        moderated, degrees = part.of_seeds.moderate(own, seeds - 1.0)
        pieces.append((part.weight**2 * moderated / seeds, degrees))
        for start, size in strata:
            if size > 1:
                both = part.weight**2 * _interaction(part.values[:, start : start + size])
                shared += both * size / (seeds * total**2)
    # Pools at several k have the same seeds.
    seen, degrees = _together(pieces, pools)
    variance = of_problems + max(0.0, seen - shared)
    of_both = [(of_problems, float(total - len(sizes))), (seen, degrees)]
    if not known:
        seen, variance, of_both = np.nan, of_problems, of_both[:1]
    least = min((degrees for piece, degrees in of_both if piece > 0), default=0.0)
    return Estimate(
        float(by_problem.mean()),
        float(np.sqrt(of_problems)),
        float(np.sqrt(seen)),
        float(np.sqrt(variance)),
        max(_satterthwaite(variance, of_both), least),
    )


def difference_of_runs(
    higher: ArrayLike, lower: ArrayLike, of_seeds: SeedVariance = SeedVariance()
) -> Estimate:
    """Mean of one method's training runs minus another's, by Welch's t-test; one value per run.

    Runs with the same seed share prompts and random numbers, which Welch's t ignores (`combine`
    says why). The error is NaN where a method has a single run.

    Args:
        of_seeds: by which the variances are moderated.
    """
    first, second = np.asarray(higher, dtype=float), np.asarray(lower, dtype=float)
    value = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
        return Estimate(value, np.nan, np.nan, np.nan, np.nan)
    pieces = []
    for runs in (first, second):
        moderated, degrees = of_seeds.moderate(runs.var(ddof=1), len(runs) - 1.0)
        pieces.append((moderated / len(runs), degrees))
    variance, degrees = _together(pieces, [of_seeds, of_seeds])
    error = float(np.sqrt(variance))
    return Estimate(value, np.nan, error, error, degrees)


def mean_of_steps(values: ArrayLike) -> Estimate:
    """Mean of independent values, of steps or runs, by Student's t; NaN error for one value."""
    steps = np.asarray(values, dtype=float)
    mean = float(steps.mean())
    if len(steps) < 2:
        return Estimate(mean, np.nan, np.nan, np.nan, np.nan)
    error = float(steps.std(ddof=1) / np.sqrt(len(steps)))
    return Estimate(mean, np.nan, np.nan, error, len(steps) - 1.0)


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


def score_interval(value: float, error: float, problems: int) -> tuple[float, float]:
    """A 95 % interval of a mean of few fractions, which never has no width nor leaves 0 to 1.

    Wilson's score interval (1927) for the number of trials that would have this error,
    n = value (1 - value) / error^2, or `problems` where the error is 0; with t, Student's quantile
    for `problems` - 1 degrees of freedom, instead of the normal one:

        (value + t^2/2n -+ t sqrt(value (1 - value)/n + t^2/4n^2)) / (1 + t^2/n)

    NaN for a single problem, and without an error.
    """
    from scipy.special import stdtrit

    if problems < 2 or np.isnan(error):
        return np.nan, np.nan
    trials = value * (1 - value) / error**2 if error > 0 else problems
    t = float(stdtrit(problems - 1, (1 + CONFIDENCE) / 2))
    half = t * np.sqrt(value * (1 - value) / trials + t**2 / (4 * trials**2))
    low, high = (
        (value + t**2 / (2 * trials) + sign * half) / (1 + t**2 / trials) for sign in (-1, 1)
    )
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
    starts = np.cumsum([0, *sizes[:-1]])
    drawn = [
        start + rng.integers(size, size=(resamples, size))
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(drawn, axis=1)


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


def _together(
    pieces: Sequence[tuple[float, float]], pools: Sequence[SeedVariance]
) -> tuple[float, float]:
    """The sum of variances that were moderated, no more certain than all seeds of the run.

    A pool of methods that all tie, as at a ceiling, adds nothing and says nothing.
    """
    variance = sum(piece for piece, _ in pieces)
    adding = [pool for (piece, _), pool in zip(pieces, pools, strict=True) if piece > 0]
    most = max((pool.sum_of_degrees for pool in adding), default=np.inf)
    return variance, min(_satterthwaite(variance, [(0.0, np.inf), *pieces]), most)


def _satterthwaite(variance: float, pieces: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a variance estimated as a sum of pieces (variance, degrees)."""
    spread = sum(piece**2 / degrees for piece, degrees in pieces if degrees > 0)
    return variance**2 / spread if spread > 0 else max(degrees for _, degrees in pieces)


def _inverse_trigamma(value: float) -> float:
    """The x > 0 with trigamma(x) = value, by Newton's method on 1 / trigamma (Smyth 2004)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
