"""Coverage of the 95 % intervals for the difference of two methods whose true values are known.

Two methods answer the same problems, N responses to each, after trainings with several seeds. The
truth is the difference between their expectations over problems, trainings and responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchmarks import Row
from rspo.estimators import pass_at_k
from rspo.evaluation.statistics import Estimate, Floats, mean_of_scores

# The numbers of problems of four benchmarks, and of a single small one.
MANY = (300, 250, 200, 140)
FEW = (30,)
# A problem's chance of a correct response has a beta distribution. These are its parameters for
# each benchmark.
SHAPES = ((0.4, 2.0), (1.0, 1.0), (2.0, 2.0), (0.5, 0.6))
RESPONSES = 32  # to each problem
K = 4
# Standard deviations of the logit of a chance: between the methods at a problem, in all trainings,
# and between the trainings of a method at a problem.
BY_PROBLEM = 0.5
BY_TRAINING = 0.3
REPEATS = 2000  # simulations of each row


@dataclass(frozen=True)
class Pattern:
    """How the Pass@4 of two methods varies over training seeds.

    first, second: the standard deviations over seeds, in percentage points.
    correlation: the correlation between the two methods' deviations with the same seed.
    collapse_share: the share of the first method's trainings that collapse.
    collapse_points: the percentage points that such a training loses.
    """

    first: float
    second: float
    correlation: float = 0.0
    collapse_share: float = 0.0
    collapse_points: float = 0.0


# Standard deviations and correlations are like those in docs/studies, where policy gradient varies
# four times as much as RSPO, and methods correlate by up to .8.
PATTERNS = {
    "0.1 and 0.1 points": Pattern(0.1, 0.1),
    "0.6 and 0.6": Pattern(0.6, 0.6),
    "2.4 and 0.5": Pattern(2.4, 0.5),
    "3 and 3": Pattern(3.0, 3.0),
    "3 and 0.4": Pattern(3.0, 0.4),
    "1.2 and 1.2, correlated by .8": Pattern(1.2, 1.2, 0.8),
    "2.4 and 0.5, correlated by .8": Pattern(2.4, 0.5, 0.8),
    "one training in five loses 3 points": Pattern(0.5, 0.5, 0.0, 0.2, 3.0),
}
# Trainings that collapse further are not normally distributed at all: no interval from so few seeds
# covers them. These rows have no limit; docs/statistics.md says what they show.
BEYOND = {"three trainings in ten lose 5 points": Pattern(0.5, 0.5, 0.0, 0.3, 5.0)}


@dataclass(frozen=True)
class Limits:
    """The limits for intervals and p-values with a number of seeds.

    covered: the least coverage.
    below: the largest fraction of two-sided p-values of the truth below .01; NaN without p-values.
    """

    covered: float
    below: float


LIMITS = {2: Limits(0.9, np.nan), 3: Limits(0.93, 0.02), 5: Limits(0.94, 0.015)}


@dataclass(frozen=True)
class Coverage:
    """What simulations with one pattern show about intervals, and about p-values of the truth.

    covered: the fraction of 95 % intervals that contain the truth.
    below: the fractions of two-sided p-values of the truth below .01, and below .05 / 12.
    satterthwaite: the same as `covered` with Satterthwaite's degrees of freedom.
    width: the width of the intervals, relative to those with Satterthwaite's degrees of freedom.
    """

    covered: float
    below: tuple[float, float]
    satterthwaite: float
    width: float

    def holds(self, limits: Limits) -> bool:
        """Whether both numbers are within their limits; a fraction that is NaN always is."""
        return self.covered >= limits.covered and not self.below[0] > limits.below


def coverage(pattern: Pattern, sizes: Sequence[int], seeds: int, repeats: int) -> Coverage:
    """Simulate trainings and evaluations of two methods.

    Args:
        sizes: the numbers of problems of each benchmark.
        seeds: the number of trainings of each method.
        repeats: the number of simulations.
    """
    rng = np.random.default_rng(seeds)
    per_logit = _points_per_logit(sizes)
    truth = _truth(rng, pattern, sizes, per_logit)
    passed = pass_at_k(RESPONSES, np.arange(RESPONSES + 1), K)  # by number of correct responses
    p_values = []
    is_covered = []
    is_covered_by_other = []
    widths = []
    widths_of_other = []
    for _ in range(repeats):
        shifts = _shifts(rng, pattern, seeds) / per_logit
        scores = passed[rng.binomial(RESPONSES, _chances(rng, sizes, shifts))]
        estimate = mean_of_scores(scores[0] - scores[1], sizes)
        low, high = estimate.interval()
        half_of_other = _half_by_satterthwaite(estimate)
        is_covered.append(low <= truth <= high)
        is_covered_by_other.append(abs(estimate.value - truth) <= half_of_other)
        widths.append(high - low)
        widths_of_other.append(2 * half_of_other)
        p_values.append(2 * min(estimate.p_above(truth), estimate.p_below(truth)))
    below = (np.nan, np.nan)
    if seeds > 2:  # two seeds give no p-values
        p = np.array(p_values)
        below = (float(np.mean(p < 0.01)), float(np.mean(p < 0.05 / 12)))
    return Coverage(
        covered=float(np.mean(is_covered)),
        below=below,
        satterthwaite=float(np.mean(is_covered_by_other)),
        width=float(np.mean(widths) / np.mean(widths_of_other)),
    )


def _chances(rng: np.random.Generator, sizes: Sequence[int], shifts: Floats) -> Floats:
    """The chances of a correct response on new problems, (methods, seeds, problems).

    Args:
        shifts: what each training adds to the logits of all chances, (methods, seeds).
    """
    easy = np.concatenate(
        [rng.beta(*shape, size) for shape, size in zip(SHAPES, sizes, strict=False)]
    )
    easy = np.clip(easy, 1e-9, 1 - 1e-9)
    methods, seeds = shifts.shape
    # Each method deviates at each problem in the same way in all its trainings; each training
    # deviates further.
    logits = np.log(easy / (1 - easy)) + BY_PROBLEM * rng.standard_normal((methods, 1, len(easy)))
    by_training = BY_TRAINING * rng.standard_normal((methods, seeds, len(easy)))
    return 1 / (1 + np.exp(-logits - by_training - shifts[:, :, None]))


def _shifts(rng: np.random.Generator, pattern: Pattern, seeds: int) -> Floats:
    """The deviations of two methods' trainings in percentage points, (2, seeds)."""
    own = rng.standard_normal((2, seeds))
    common = rng.standard_normal((1, seeds))
    correlation = pattern.correlation
    deviations = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    shifts: Floats = np.array([[pattern.first], [pattern.second]]) * deviations
    collapsed = rng.random(seeds) < pattern.collapse_share
    shifts[0] -= pattern.collapse_points * collapsed
    return shifts


def _points_per_logit(sizes: Sequence[int]) -> float:
    """How many percentage points Pass@4 rises per unit of the logit of every chance."""
    rng = np.random.default_rng(0)
    shifts = np.array([[0.05], [-0.05]])
    repeats = 200_000 // sum(sizes)  # enough new problems for a precise mean
    means = [_mean_passed(rng, sizes, shifts)[:, 0] for _ in range(repeats)]
    higher, lower = np.mean(means, axis=0)
    return float(100 * (higher - lower) / 0.1)


def _truth(
    rng: np.random.Generator, pattern: Pattern, sizes: Sequence[int], per_logit: float
) -> float:
    """The difference between two methods' expected Pass@4."""
    means = []
    for _ in range(1_200_000 // sum(sizes)):
        shifts = _shifts(rng, pattern, seeds=20) / per_logit
        means.append(_mean_passed(rng, sizes, shifts).mean(axis=1))
    first, second = np.mean(means, axis=0)
    return float(first - second)


def _mean_passed(rng: np.random.Generator, sizes: Sequence[int], shifts: Floats) -> Floats:
    """The expected Pass@4 on one set of new problems, (methods, seeds)."""
    chances = _chances(rng, sizes, shifts)
    return np.asarray((1 - (1 - chances) ** K).mean(axis=2))


def _half_by_satterthwaite(estimate: Estimate) -> float:
    """Half of a 95 % interval with Satterthwaite's degrees of freedom (1946)."""
    terms: NDArray[np.float64] = np.array([estimate.error_problems, estimate.error_seeds]) ** 2
    degrees = np.array([estimate.degrees, estimate.seeds - 1.0])
    # `error` is without the interaction, which both terms include. The formula may therefore give
    # fewer degrees than either term has.
    least = degrees[terms > 0].min()
    combined = max(estimate.error**4 / float((terms**2 / degrees).sum()), least)
    return estimate.error * float(stdtrit(combined, 0.975))


def run() -> list[Row]:
    """A row for each set of problems, number of seeds and pattern."""
    rows = []
    for sizes in (MANY, FEW):
        for seeds, limits in LIMITS.items():
            for name, pattern in (PATTERNS | BEYOND).items():
                result = coverage(pattern, sizes, seeds, REPEATS)
                row = _row(f"{sum(sizes)} problems, {seeds} seeds, {name}", result, limits)
                if name in BEYOND:  # without a limit
                    row = Row(row.what, row.measured)
                rows.append(row)
    return rows


def _row(what: str, result: Coverage, limits: Limits) -> Row:
    bar = f"at least {limits.covered}"
    measured = f"{result.covered:.3f}"
    if not np.isnan(limits.below):
        bar += f"; at most {limits.below}"
        measured += f"; p < .01: {result.below[0]:.3f}, p < .05/12: {result.below[1]:.4f}"
    measured += f"; Satterthwaite {result.satterthwaite:.3f}, width {result.width:.2f}"
    return Row(what, measured, bar, result.holds(limits))
