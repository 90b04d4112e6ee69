"""Coverage of the 95 % bootstrap intervals of regrets and crossings whose true values are known.

A base model and three trained ones answer the same problems. Training raises the chance of a
correct response where it was high already, and lowers it where it was low, more for one method than
for another: the base model overtakes some of them at some k.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks import Row
from rspo.analysis.bootstrap import Counts, Curves, crossings, regrets, resampled_curves
from rspo.evaluation.statistics import Floats

SIZES = [300, 250, 200, 140]  # problems of each benchmark
SAMPLES = 128
LARGEST = 64  # the largest k of the curves
REPEATS = 100  # simulations of each row
# The least coverage of each interval, for seeds that differ by up to `VARIES_LITTLE`. Few seeds
# that differ by more have no limit: docs/statistics.md says what these rows show.
LEAST_COVERED = 0.93
VARIES_LITTLE = 0.1
# After training by method m, a chance of a correct response has the logit
# `SLOPES[m] * x + RISES[m]`, where x is that of the base model, which is the last method.
SLOPES = np.array([1.5, 1.3, 1.1, 1.0])
RISES = np.array([1.4, 1.0, 0.5, 0.0])
BASE = 3
# Standard deviations of logits: at a problem, by method; at a problem, by training; and of all
# problems, by training.
BY_PROBLEM = 0.5
BY_TRAINING = 0.3
BY_SEED = (0.0, 0.1, 0.3)


@dataclass(frozen=True)
class Covered:
    """The fractions of intervals that contain the truth."""

    regret: float
    excess: float
    crossing: float


def chances(rng: np.random.Generator, problems: int, seeds: int, by_seed: float) -> Floats:
    """The chance of a correct response, [methods, seeds, problems]."""
    base = rng.normal(-2.0, 1.5, problems)
    shape = (len(SLOPES), 1, 1)
    logits = SLOPES.reshape(shape) * base + RISES.reshape(shape)
    logits = logits + BY_PROBLEM * rng.standard_normal((len(SLOPES), 1, problems))
    logits = logits + BY_TRAINING * rng.standard_normal((len(SLOPES), seeds, problems))
    logits = logits + by_seed * rng.standard_normal((len(SLOPES), seeds, 1))
    return np.asarray(1 / (1 + np.exp(-logits)))


def true_curves(by_seed: float) -> Floats:
    """The expected curves over problems and trainings, [methods, K]."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(50):
        wrong = 1 - chances(rng, problems=2000, seeds=20, by_seed=by_seed)
        found.append([1 - (wrong**k).mean(axis=(1, 2)) for k in range(1, LARGEST + 1)])
    return np.asarray(np.mean(found, axis=0).T)


def coverage(seeds: int, by_seed: float, repeats: int) -> Covered:
    """Simulate evaluations of all methods, and compare their intervals with the truth.

    Args:
        seeds: the number of trainings of each method.
        by_seed: the standard deviation of all logits of a training.
        repeats: the number of simulations.
    """
    rng = np.random.default_rng(seeds)
    truth = true_curves(by_seed)
    of_truth = Curves(truth, truth[np.newaxis], seeds)
    true_regrets = [one.largest.value for one in regrets(_trained(of_truth))]
    true_crossings = [one.value for one in crossings(of_truth, BASE)]
    regret_covered = []
    excess_covered = []
    crossing_covered = []
    for _ in range(repeats):
        correct = rng.binomial(SAMPLES, chances(rng, sum(SIZES), seeds, by_seed))
        curves = resampled_curves(Counts(correct, SAMPLES, SIZES), LARGEST)
        found = regrets(_trained(curves))
        best = int(np.argmin([found[method].largest.value for method in range(BASE)]))
        for method, crossing in enumerate(crossings(curves, BASE)[:BASE]):
            one = found[method]
            excess = true_regrets[method] - true_regrets[best]
            regret_covered.append(one.largest.low <= true_regrets[method] <= one.largest.high)
            crossing_covered.append(crossing.low <= true_crossings[method] <= crossing.high)
            if method != best:
                excess_covered.append(one.excess.low <= excess <= one.excess.high)
    return Covered(
        regret=float(np.mean(regret_covered)),
        excess=float(np.mean(excess_covered)),
        crossing=float(np.mean(crossing_covered)),
    )


def _trained(curves: Curves) -> Curves:
    """The curves without those of the base model."""
    return Curves(curves.means[:BASE], curves.resampled[:, :BASE], curves.seeds)


def run() -> list[Row]:
    """A row for each number of seeds and each standard deviation over seeds."""
    rows = []
    for seeds in (5, 3):
        for by_seed in BY_SEED:
            result = coverage(seeds, by_seed, REPEATS)
            what = f"{seeds} seeds, {by_seed} of a logit over seeds"
            rows.append(_row(what, result, by_seed <= VARIES_LITTLE))
    return rows


def _row(what: str, result: Covered, has_limit: bool) -> Row:
    measured = (
        f"regret {result.regret:.3f}, difference of two regrets {result.excess:.3f}, crossing "
        f"{result.crossing:.3f}"
    )
    if not has_limit:
        return Row(what, measured)
    least = min(result.regret, result.excess, result.crossing)
    return Row(what, measured, f"at least {LEAST_COVERED}", least >= LEAST_COVERED)
