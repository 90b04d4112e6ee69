"""Numbers of whole curves of Pass@k, with bootstrap intervals over seeds and problems.

regret     how much Pass@k a method lacks to the best method, at each k = 1 .. K
crossing   the k at which the base model overtakes a method, interpolated between whole k

A curve is the mean over seeds and problems of Pass@k at k = 1 .. K. A resample draws seeds, and
problems within each benchmark, the same ones for all methods, so that methods are compared within
seeds and problems. Of S seeds it draws S - 1, with replacement: then the variance over seeds of a
mean is unbiased (Rao and Wu 1988), which with S draws would be too small by (S - 1) / S. With one
seed, the intervals are over problems only. With several, an interval leaves out as many resamples
at each end as a normal distribution has beyond the quantile of Student's t with S - 1 degrees of
freedom, because a few seeds do not show how much seeds vary (Hesterberg 2015). Intervals are too
wide where problems vary more than seeds do, and where seeds differ in which problems they solve,
because the interaction of seeds and problems is part of both draws (Owen 2007).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rspo.evaluation.statistics import CONFIDENCE, Floats, resampled_problems
from rspo.passk import pass_at_k

RESAMPLES = 2000
SEED = 0


class Counts(NamedTuple):
    """How many samples of several methods are correct.

    correct: [methods, seeds, problems].
    samples: of each problem.
    sizes: number of problems of each benchmark.
    """

    correct: NDArray[np.int64]
    samples: int
    sizes: list[int]


class Curves(NamedTuple):
    """The curves of several methods.

    means: [methods, K].
    resampled: those of each resample, [resamples, methods, K].
    seeds: how many seeds they are the means of.
    """

    means: Floats
    resampled: Floats
    seeds: int


class Interval(NamedTuple):
    """A value, and the ends of its 95 % interval; infinite for a crossing above the largest k."""

    value: float
    low: float
    high: float


class Regret(NamedTuple):
    """The regret of a method among several.

    largest: the largest regret over k.
    at: the k at which it is largest.
    mean: the mean over k.
    excess: `largest` minus that of the method with the smallest one, which is the same method in
        every resample.
    """

    largest: Interval
    at: int
    mean: Interval
    excess: Interval


def curves_of(counts: NDArray[np.int64], samples: int, largest: int) -> Floats:
    """Pass@k at k = 1 .. `largest` from numbers of correct samples, [..., largest].

    Args:
        counts: [...], each between 0 and `samples`.
    """
    every_count = np.arange(samples + 1)
    table = np.stack([pass_at_k(samples, every_count, k) for k in range(1, largest + 1)], axis=-1)
    return np.asarray(table[counts])


def resampled_curves(counts: Counts, largest: int, resamples: int = RESAMPLES) -> Curves:
    """The curve of each method, and those of each resample.

    Args:
        largest: K.
    """
    return mean_over_seeds(curves_by_seed(counts, largest, resamples))


def curves_by_seed(counts: Counts, largest: int, resamples: int = RESAMPLES) -> list[Curves]:
    """The curves of each seed alone. Resamples draw the same problems for all methods and seeds.

    Args:
        largest: K.
    """
    methods, seeds, problems = counts.correct.shape
    drawn = resampled_problems(counts.sizes, resamples, SEED)
    of_problems = np.stack([np.bincount(row, minlength=problems) for row in drawn]) / problems
    found = []
    for seed in range(seeds):
        means = np.zeros((methods, largest))
        resampled = np.zeros((resamples, methods, largest))
        for method in range(methods):
            correct = counts.correct[method, seed]
            values = curves_of(correct, counts.samples, largest)  # [problems, K]
            means[method] = values.mean(axis=0)
            resampled[:, method] = of_problems @ values
        found.append(Curves(means, resampled, seeds=1))
    return found


def mean_over_seeds(by_seed: Sequence[Curves]) -> Curves:
    """The mean curves over seeds; a resample draws seeds beside the problems."""
    weights = seed_weights(len(by_seed), len(by_seed[0].resampled))
    means = np.zeros_like(by_seed[0].means)
    resampled = np.zeros_like(by_seed[0].resampled)
    for curves, weight in zip(by_seed, weights.T, strict=True):
        means += curves.means / len(by_seed)
        resampled += weight[:, np.newaxis, np.newaxis] * curves.resampled
    return Curves(means, resampled, len(by_seed))


def seed_weights(seeds: int, resamples: int) -> Floats:
    """The weight of each seed in each resample, [resamples, seeds]; they sum to 1."""
    if seeds == 1:
        return np.ones((resamples, 1))
    rng = np.random.default_rng([SEED, seeds])
    drawn = rng.integers(seeds, size=(resamples, seeds - 1))
    weights = [np.bincount(row, minlength=seeds) for row in drawn]
    return np.array(weights) / (seeds - 1)


def regrets(curves: Curves) -> list[Regret]:
    """The regret of each method: what it lacks to the best one at each k.

    The largest of several estimates is too large by chance, and so is a regret: more so in a
    resample, so that the interval of a regret near 0 may lie above it.
    """
    losses = _losses(curves.means)  # [methods, K]
    resampled_losses = _losses(curves.resampled)  # [resamples, methods, K]
    largest = losses.max(axis=-1)
    largest_resampled = resampled_losses.max(axis=-1)
    best = int(largest.argmin())
    excess_resampled = largest_resampled - largest_resampled[:, [best]]
    mean_resampled = resampled_losses.mean(axis=-1)
    found = []
    for method, loss in enumerate(losses):
        excess = largest[method] - largest[best]
        regret = Regret(
            largest=_interval(largest[method], largest_resampled[:, method], curves.seeds),
            at=int(loss.argmax()) + 1,
            mean=_interval(loss.mean(), mean_resampled[:, method], curves.seeds),
            excess=_interval(excess, excess_resampled[:, method], curves.seeds),
        )
        found.append(regret)
    return found


def _losses(curves: Floats) -> Floats:
    """What each method lacks to the best one at each k; [..., methods, K]."""
    return np.asarray(curves.max(axis=-2, keepdims=True) - curves)


def crossings(curves: Curves, base: int) -> list[Interval]:
    """The k at which one of the methods, the base model, overtakes each method.

    Args:
        base: the index of the base model among the methods.
    """
    differences = curves.means - curves.means[[base]]
    resampled_differences = curves.resampled - curves.resampled[:, [base]]
    found = []
    for method in range(len(curves.means)):
        value = falls_below(differences[[method]])[0]
        resampled = falls_below(resampled_differences[:, method])
        found.append(_interval(value, resampled, curves.seeds))
    return found


def rising_shares(curves: Curves, base: int, order: Sequence[int]) -> list[float]:
    """How surely the base model overtakes some methods in an order.

    Args:
        base: the index of the base model among the methods.
        order: indices of methods.

    Returns: for each method of `order`, the share of the resamples in which the crossings rise
        strictly from the first method up to this one. Two that are never overtaken do not rise.
    """
    resampled = curves.resampled
    found = [falls_below(resampled[:, method] - resampled[:, base]) for method in order]
    rises = np.ones(len(resampled), bool)
    shares = [1.0]
    for earlier, later in pairwise(found):
        rises &= later > earlier
        shares.append(float(rises.mean()))
    return shares


def falls_below(differences: Floats) -> Floats:
    """The k at which curves of differences over k = 1 .. K fall below 0, [...].

        k + D(k) / (D(k) - D(k+1)),    k + 1 being the first with D(k+1) < 0

    Returns: 1 for a curve that begins below 0; infinity for one that is never below 0.
    """
    below = differences < 0  # [..., K]
    after = below.argmax(axis=-1)  # index of the first k below 0; 0 if there is none
    before = np.maximum(after - 1, 0)
    value = np.take_along_axis(differences, before[..., None], axis=-1)[..., 0]
    next_value = np.take_along_axis(differences, after[..., None], axis=-1)[..., 0]
    step = np.divide(value, value - next_value, out=np.zeros_like(value), where=after > 0)
    k = np.where(after > 0, before + 1 + step, 1.0)
    return np.asarray(np.where(below.any(axis=-1), k, np.inf))


def tail_of(seeds: int) -> float:
    """The share of resamples beyond each end of a 95 % interval.

    With several seeds, it is that of a normal distribution beyond the quantile of Student's t. Of
    two or three seeds it is less than one resample, so that an interval ends at the outermost ones.
    """
    from scipy.special import ndtr, stdtrit  # slow to import, which every command would wait for

    tail = (1 - CONFIDENCE) / 2
    return tail if seeds == 1 else float(ndtr(stdtrit(seeds - 1, tail)))


def _interval(value: float, resampled: Floats, seeds: int) -> Interval:
    """A value with the 95 % interval of its resamples, which may be infinite."""
    tail = tail_of(seeds)
    low, high = np.quantile(resampled, (tail, 1 - tail), method="inverted_cdf")
    return Interval(float(value), float(low), float(high))
