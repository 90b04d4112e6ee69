"""Variances over seeds, pooled and moderated: by hand, against other solvers, and by simulation."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from benchmarks.coverage import SPREADS, Coverage, coverage
from rspo.evaluation.statistics import (
    Floats,
    Part,
    SeedVariance,
    combine,
    difference_of_runs,
    score_interval,
)

SIZES = (4, 9, 2)
EQUAL = [[0.1, 0.2, 0.3], [0.5, 0.55, 0.7], [0.2, 0.4, 0.25]]
UNEQUAL = [[0.1, 0.1001, 0.0999], [0.2, 0.2002, 0.1998], [0.1, 0.4, 0.9], [0.3, 0.9, 0.1]]


def methods(seeds: tuple[int, ...]) -> list[Floats]:
    """Estimates of three methods with different numbers of seeds, [seeds, problems]."""
    rng = np.random.default_rng(4)
    hard = rng.random(sum(SIZES))
    return [hard + rng.random((n, 1)) + 0.3 * rng.random((n, sum(SIZES))) for n in seeds]


def by_hand(parts: list[Part]) -> tuple[float, ...]:
    """Of a sum, benchmark by benchmark, without moderation.

    Returns: the variances over problems, over seeds and over both, and the degrees of freedom.
    """
    weights = [size / sum(SIZES) for size in SIZES]
    ends = np.cumsum(SIZES)
    strata = [slice(end - size, end) for end, size in zip(ends, SIZES, strict=True)]
    total = sum(part.weight * part.values.mean(axis=0) for part in parts)
    of_problems = sum(
        weight**2 * np.var(total[one], ddof=1) / size
        for weight, one, size in zip(weights, strata, SIZES, strict=True)
    )
    pieces, both = [], 0.0
    for part in parts:
        seeds = len(part.values)
        pieces.append(
            (part.weight**2 * np.var(part.values.mean(axis=1), ddof=1) / seeds, seeds - 1)
        )
        for weight, one, size in zip(weights, strata, SIZES, strict=True):
            x = part.values[:, one]
            left = x - x.mean(axis=0) - (x.mean(axis=1) - x.mean())[:, None]
            mean_square = np.sum(left**2) / ((seeds - 1) * (size - 1))
            both += part.weight**2 * weight**2 * mean_square / (seeds * size)
    of_seeds = sum(piece for piece, _ in pieces)
    variance = of_problems + max(0.0, of_seeds - both)
    spread = sum(piece**2 / degrees for piece, degrees in pieces)
    degrees = variance**2 / (of_problems**2 / (sum(SIZES) - len(SIZES)) + spread)
    return float(of_problems), of_seeds, variance, degrees


@pytest.mark.parametrize("seeds", [(2, 3, 5), (4, 4, 4)])
def test_the_error_of_a_sum_is_that_of_two_way_layouts_in_strata(seeds: tuple[int, ...]) -> None:
    weights = (1.0, -0.5, -0.5)
    parts = [Part(x, weight) for x, weight in zip(methods(seeds), weights, strict=True)]
    found = combine(parts, SIZES)
    variances = [error**2 for error in (found.error_problems, found.error_seeds, found.error)]
    assert [*variances, found.degrees] == pytest.approx(by_hand(parts))
    assert found.value == pytest.approx(sum(part.weight * part.values.mean() for part in parts))
    assert found.error > found.error_problems > 0


def test_equal_variances_are_pooled_with_the_degrees_of_all_seeds() -> None:
    runs = [[0.1, 0.2, 0.3], [0.5, 0.55, 0.7], [0.2, 0.4]]
    pool = SeedVariance.of([*runs, [0.9]])
    own = [float(np.var(one, ddof=1)) for one in runs]
    assert pool.p_equal == pytest.approx(stats.bartlett(*runs).pvalue)
    assert pool.p_equal > 0.05
    pooled = (2 * own[0] + 2 * own[1] + own[2]) / 5
    assert pool.moderate(own[0], 2) == (pytest.approx(pooled), 5)
    assert pool.methods == 3
    found = difference_of_runs(runs[0], runs[1], pool)
    assert found.error == pytest.approx(np.sqrt(2 * pooled / 3))
    assert found.degrees == pytest.approx(5)  # not 10: both have the same estimate
    two = SeedVariance.of(runs[:2])
    assert two.moderate(own[0], 2) == (pytest.approx((own[0] + own[1]) / 2), 4)


def test_unequal_variances_are_moderated_as_by_smyth() -> None:
    pool, own = SeedVariance.of(UNEQUAL), np.var(UNEQUAL, axis=1, ddof=1)
    assert pool.p_equal < 0.05
    degrees, common = by_smyth(own)
    assert (pool.degrees, pool.variance) == (pytest.approx(degrees), pytest.approx(common))
    expected = (degrees * common + 2 * own[2]) / (degrees + 2)
    assert pool.moderate(own[2], 2) == (pytest.approx(expected), pytest.approx(degrees + 2))
    assert own[2] > expected > own[0]


def by_smyth(own: Floats) -> tuple[float, float]:
    """d0 and s0^2 of variances with two degrees of freedom each.

    d0 solves trigamma(d0/2) = variance of log s^2 minus trigamma(d/2).
    """
    excess = np.var(np.log(own), ddof=1) - special.polygamma(1, 1.0)
    half = optimize.brentq(lambda x: special.polygamma(1, x) - excess, 1e-6, 1e6)
    log_mean = np.mean(np.log(own)) - special.digamma(1.0) + np.log(1.0)
    return 2 * half, float(np.exp(log_mean + special.digamma(half) - np.log(half)))


def test_the_common_variance_and_its_degrees_are_recovered() -> None:
    """Variances drawn as s0^2 d0 / chi^2(d0), for a thousand methods."""
    rng = np.random.default_rng(2)
    truth = 0.04 * 6 / rng.chisquare(6, 1000)
    runs = rng.standard_normal((1000, 3)) * np.sqrt(truth)[:, None]
    pool = SeedVariance.of(list(runs))
    assert (pool.degrees, pool.variance) == pytest.approx(by_smyth(runs.var(axis=1, ddof=1)))
    assert pool.degrees == pytest.approx(6, rel=0.35)
    assert pool.variance == pytest.approx(0.04, rel=0.1)


def test_a_variance_that_looks_small_is_not_left_out() -> None:
    """Seeds that agree by chance have the error of the other methods' seeds."""
    rng = np.random.default_rng(3)
    alike = np.tile(rng.random(50), (3, 1))
    others = [[0.1, 0.3, 0.2], [0.5, 0.3, 0.4], [0.2, 0.3, 0.5]]
    pool = SeedVariance.of([alike.mean(axis=1), *others])
    alone, moderated = combine([Part(alike)], (50,)), combine([Part(alike, of_seeds=pool)], (50,))
    assert alone.error == pytest.approx(alone.error_problems)
    pooled = np.mean([0.0, *np.var(others, axis=1, ddof=1)])
    assert moderated.error_seeds == pytest.approx(np.sqrt(pooled / 3))
    assert moderated.error == pytest.approx(
        np.hypot(moderated.error_problems, moderated.error_seeds)
    )


def test_pools_at_several_k_have_the_degrees_of_their_seeds_once() -> None:
    """Seven methods with two seeds: 7 degrees, however many k are added up."""
    rng = np.random.default_rng(6)
    runs = rng.standard_normal((4, 7, 2))
    pools = [SeedVariance.of(list(at_k)) for at_k in runs]
    assert {pool.degrees for pool in pools} == {np.inf}
    values = np.full((2, 40), 0.5) + np.array([[0.0], [0.1]])
    found = combine([Part(values, of_seeds=pool) for pool in pools], (40,))
    assert found.error_problems == pytest.approx(0)
    assert found.degrees == pytest.approx(7)


def test_a_part_that_counts_for_nothing_changes_nothing() -> None:
    """One of weight 0, or of values 0 with a pool of zeros; also with a single seed."""
    rng = np.random.default_rng(7)
    pool = SeedVariance.of(list(rng.standard_normal((3, 2))))
    higher, lower = rng.standard_normal((2, 2, 40)) + 5 * rng.standard_normal((2, 2, 1))
    parts = [Part(higher, of_seeds=pool), Part(lower, -1.0, of_seeds=pool)]
    alone = combine(parts, (40,))
    assert alone.degrees < 4  # those of 3 methods with 2 seeds cap those of the seeds
    zeros = SeedVariance.of([[0.0, 0.0]] * 9)
    for nothing in (
        Part(higher, 0.0, of_seeds=SeedVariance()),
        Part(higher[:1], 0.0),
        Part(np.zeros((2, 40)), of_seeds=zeros),
        Part(np.zeros((2, 40)), of_seeds=SeedVariance()),
    ):
        assert combine([*parts, nothing], (40,)) == alone
        assert combine([nothing, *parts], (40,)) == alone


def test_seeds_that_no_other_method_has_count_once_at_several_k() -> None:
    """A pool of one method is moderated by nothing, and still has the degrees of its own seeds."""
    values = np.full((3, 40), 0.5) + np.array([[0.0], [0.1], [0.3]])
    pools = [SeedVariance.of([scale * values.mean(axis=1)]) for scale in (1.0, 2.0, 3.0)]
    parts = [Part(values * (1 + i), of_seeds=pool) for i, pool in enumerate(pools)]
    assert combine(parts, (40,)).degrees == pytest.approx(2)
    assert SeedVariance.of([]).sum_of_degrees == np.inf


def test_seeds_that_agree_by_chance_do_not_decide_whether_variances_are_pooled() -> None:
    """One method at a ceiling, exactly or up to rounding."""
    for tie in ([0.5, 0.5, 0.5], [0.3, 0.1 + 0.2, 0.3]):
        unequal, equal = SeedVariance.of([*UNEQUAL, tie]), SeedVariance.of([*EQUAL, tie])
        assert unequal.p_equal == pytest.approx(stats.bartlett(*UNEQUAL).pvalue)
        assert unequal.degrees < np.inf
        assert equal.degrees == np.inf
        pooled = np.mean([*np.var(EQUAL, axis=1, ddof=1), 0.0])
        assert equal.moderate(0.0, 2) == (pytest.approx(pooled), 8)


def test_one_method_or_one_seed_moderates_nothing() -> None:
    for runs in ([], [[0.1, 0.2]], [[0.1], [0.2]], [[0.1, 0.2], [0.3]], [[0.1, 0.1], [0.2, 0.2]]):
        assert SeedVariance.of(runs).moderate(0.7, 1) == (0.7, 1)
        assert SeedVariance.of(runs).methods == sum(len(one) > 1 for one in runs)


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("spread", ["equal", "unequal"])
def test_intervals_of_all_pairs_of_methods_cover_95_percent(seeds: int, spread: str) -> None:
    """A small version of `python -m benchmarks coverage`, where limits are narrower."""
    found: Coverage = coverage(seeds, SPREADS[spread], repeats=200, seed=seeds)
    assert 0.93 <= found.mean <= 0.975
    assert found.worst >= 0.85
    assert found.significant_at_42 <= 0.012


def test_an_interval_of_few_problems_is_wilsons_and_covers_95_percent() -> None:
    value, problems = 0.3, 100_000
    error = np.sqrt(value * (1 - value) / problems)
    wilson = stats.binomtest(int(value * problems), problems).proportion_ci(method="wilson")
    assert score_interval(value, error, problems) == pytest.approx((wilson.low, wilson.high), 1e-5)
    assert score_interval(1.0, 0.0, 4) == (pytest.approx(0.2831, abs=1e-3), 1.0)
    assert np.isnan([score_interval(0.5, np.nan, 8), score_interval(0.5, 0.1, 1)]).all()
    rng = np.random.default_rng(5)
    covered = []
    for chance in rng.beta(0.5, 0.5, (2000, 8)):
        right = rng.binomial(8, chance) / 8
        error = np.sqrt(max(np.var(right, ddof=1), np.mean(right * (1 - right)) / 7) / 8)
        low, high = score_interval(float(right.mean()), error, 8)
        assert low < high
        covered.append(low <= 0.5 <= high)
    assert 0.93 <= np.mean(covered) <= 0.985


def test_the_degrees_are_not_fewer_than_those_of_a_term() -> None:
    """Where the interaction explains the variance over seeds, hardly any of it is left."""
    draw = np.random.default_rng(5)
    few = 0
    for _ in range(200):
        parts = [Part(draw.normal(size=(3, 50)), weight) for weight in (1.0, -1.0)]
        estimate = combine(parts, [50])
        assert estimate.degrees >= 2
        few += estimate.degrees < 2.5
    assert few > 10
