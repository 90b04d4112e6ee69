"""Regret and crossing against brute force, and their intervals against known truth."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from rspo.analysis import bootstrap
from rspo.analysis.bootstrap import (
    Counts,
    Curves,
    crossings,
    curves_of,
    falls_below,
    regrets,
    resampled_curves,
    rising_shares,
)
from rspo.passk import crossing

SAMPLES = 6


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(SAMPLES + 1, size=shape)


def brute_force(correct: int, k: int) -> float:
    """The share of the k-subsets of the samples that have a correct one."""
    solved = [any(sample < correct for sample in part) for part in combinations(range(SAMPLES), k)]
    return sum(solved) / len(solved)


def test_a_curve_is_the_share_of_subsets_with_a_correct_sample() -> None:
    found = curves_of(np.arange(SAMPLES + 1), SAMPLES, 4)
    expected = [[brute_force(c, k) for k in (1, 2, 3, 4)] for c in range(SAMPLES + 1)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_regret_is_the_loss_against_the_best_method_at_each_k() -> None:
    counts = drawn((3, 2, 20))
    found = regrets(resampled_curves(Counts(counts, SAMPLES, [12, 8]), 5, resamples=3))
    values = [
        [np.mean([brute_force(c, k) for c in method.ravel()]) for k in range(1, 6)]
        for method in counts
    ]
    losses = [[max(column) - value for value, column in zip(row, zip(*values))] for row in values]  # noqa: B905
    largest = [max(loss) for loss in losses]
    for loss, regret in zip(losses, found, strict=True):
        assert regret.largest.value == pytest.approx(max(loss), abs=1e-12)
        assert loss[regret.at - 1] == pytest.approx(max(loss), abs=1e-12)
        assert regret.mean.value == pytest.approx(np.mean(loss), abs=1e-12)
        assert regret.excess.value == pytest.approx(max(loss) - min(largest), abs=1e-12)


def test_a_resample_has_the_mean_of_the_seeds_and_problems_that_it_draws() -> None:
    """Written out with the same draws, for the second of two methods."""
    counts, sizes, resamples = drawn((2, 3, 10)), [4, 6], 5
    resampled = resampled_curves(Counts(counts, SAMPLES, sizes), 3, resamples).resampled
    problems = bootstrap.resampled_problems(sizes, resamples, bootstrap.SEED)
    seeds = np.random.default_rng([bootstrap.SEED, 3]).integers(3, size=(resamples, 2))
    for number in range(resamples):
        for k in (1, 2, 3):
            values = [
                brute_force(counts[1, seed, problem], k)
                for seed in seeds[number]
                for problem in problems[number]
            ]
            assert resampled[number, 1, k - 1] == pytest.approx(np.mean(values))


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_the_spread_of_resamples_over_seeds_is_the_standard_error_of_their_mean(
    seeds: int,
) -> None:
    """All problems of a seed are equal, so that nothing else varies."""
    of_seed = drawn((seeds,), seed=3) % 5
    counts = np.repeat(of_seed[None, :, None], 30, axis=2)
    resampled = resampled_curves(Counts(counts, SAMPLES, [30]), 1, resamples=20_000).resampled
    expected = np.std(of_seed / SAMPLES, ddof=1) / np.sqrt(seeds)
    assert resampled[:, 0, 0].std() == pytest.approx(expected, rel=0.03)


def test_one_seed_has_an_interval_over_problems() -> None:
    counts = drawn((1, 1, 400))
    resampled = resampled_curves(Counts(counts, SAMPLES, [400]), 1, resamples=5000).resampled
    expected = (counts[0, 0] / SAMPLES).std(ddof=1) / np.sqrt(400)
    assert resampled[:, 0, 0].std() == pytest.approx(expected, rel=0.05)


def test_a_crossing_is_that_of_rspo_compare() -> None:
    """Of two curves of problems: ahead at first, and behind later."""
    first = np.array([0.5, 0.6, 0.65, 0.66])
    second = np.array([0.3, 0.5, 0.65, 0.7])
    (found,) = falls_below((first - second)[None])
    both = [np.stack([curve, curve]) for curve in (first, second)]
    assert found == pytest.approx(crossing(*both).k)
    assert found == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("differences", "k"),
    [
        ([0.1, -0.1, 0.2], 1.5),
        ([0.3, 0.1, -0.1], 2.5),
        ([-0.1, 0.1, 0.1], 1.0),
        ([0.1, 0.2, 0.0], np.inf),
        ([0.0, 0.0, -0.1], 2.0),
    ],
)
def test_the_first_fall_below_is_interpolated(differences: list[float], k: float) -> None:
    assert falls_below(np.array([differences]))[0] == pytest.approx(k)


def test_the_base_model_overtakes_the_method_that_solves_fewer_problems() -> None:
    """The method solves half of the problems always, the base model all of them at times."""
    rng = np.random.default_rng(0)
    base = rng.binomial(32, 0.1, size=(4, 200))
    method = np.where(np.arange(200) < 100, 32, 0) + np.zeros((4, 200), dtype=int)
    curves = resampled_curves(Counts(np.stack([method, base]), 32, [200]), 16, resamples=200)
    found, of_itself = crossings(curves, base=1)
    exact = np.log(0.5) / np.log(0.9)  # where 1 - 0.9^k is 1/2
    assert found.low < exact < found.high
    assert found.value == pytest.approx(exact, abs=1.0)
    assert of_itself.value == np.inf


def test_the_difference_of_two_regrets_that_are_alike_may_be_below_0() -> None:
    """Its interval is that of the largest losses of each resample, of two methods."""
    counts = drawn((2, 1, 40), seed=5)
    counts[1, 0, :20] = counts[0, 0, 20:]  # the same numbers, at other problems
    counts[1, 0, 20:] = counts[0, 0, :20]
    curves = resampled_curves(Counts(counts, SAMPLES, [40]), 3, resamples=500)
    found = regrets(curves)
    losses = curves.resampled.max(axis=1, keepdims=True) - curves.resampled
    largest = losses.max(axis=2)
    best = int(np.argmin([regret.largest.value for regret in found]))
    other = found[1 - best].excess
    expected = np.quantile(largest[:, 1 - best] - largest[:, best], [0.025, 0.975])
    assert other.low < 0 < other.high
    assert [other.low, other.high] == pytest.approx(expected, abs=0.02)
    assert found[best].excess == (0, 0, 0)


def test_crossings_rise_in_the_resamples_in_which_each_is_later_than_the_one_before() -> None:
    """Of four resamples; k = 1 .. 3, the base model is the last method and 0 everywhere."""
    early, late, never = [0.1, -0.1, -0.1], [0.1, 0.1, -0.1], [0.1, 0.1, 0.1]
    of_resamples = [
        (early, late, never),
        (early, late, late),
        (early, never, never),  # neither of the last two is overtaken, so that they do not rise
        (late, early, never),
    ]
    resampled = np.array([[*methods, [0.0, 0.0, 0.0]] for methods in of_resamples])
    curves = Curves(resampled.mean(axis=0), resampled, seeds=1)
    assert rising_shares(curves, 3, [0, 1, 2]) == [1.0, 0.75, 0.25]
    assert rising_shares(curves, 3, [2, 1]) == [1.0, 0.0]


@pytest.mark.parametrize("seeds", [1, 2, 3, 6])
def test_an_interval_over_a_few_seeds_is_as_wide_as_that_of_students_t(seeds: int) -> None:
    """Of resamples that are normally distributed: a second method, which lacks that much."""
    normal = np.random.default_rng(0).standard_normal(200_000)
    resampled = np.zeros((len(normal), 2, 1))
    resampled[:, 0] = 100  # the best method, by far
    resampled[:, 1, 0] = normal
    regret = regrets(Curves(resampled.mean(axis=0), resampled, seeds))[1].largest
    expected = stats.norm.isf(0.025) if seeds == 1 else stats.t.isf(0.025, seeds - 1)
    if seeds == 2:  # the t of one degree of freedom, 12.7, is beyond all resamples
        expected = (normal.max() - normal.min()) / 2
    assert (regret.high - regret.low) / 2 == pytest.approx(expected, rel=0.04)
