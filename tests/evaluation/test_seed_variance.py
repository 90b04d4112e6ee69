"""Errors over training seeds: by hand, against scipy, and by simulation."""

import numpy as np
import pytest
from scipy import optimize, stats

from benchmarks.coverage import FEW, LIMITS, MANY, PATTERNS, coverage
from rspo.evaluation.statistics import (
    Estimate,
    Floats,
    least_p_of_seeds,
    mean_of_runs,
    mean_of_scores,
    mean_of_steps,
    score_interval,
)

SIZES = (4, 9, 2)


def differences(seeds: int) -> Floats:
    """Differences of two methods, [seeds, problems]."""
    rng = np.random.default_rng(4)
    hard = rng.random(sum(SIZES))
    return hard + rng.random((seeds, 1)) + 0.3 * rng.random((seeds, sum(SIZES)))


def variances_by_hand(values: Floats) -> list[float]:
    """Over problems, over seeds and over both, benchmark by benchmark."""
    seeds = len(values)
    of_problems, interaction, start = 0.0, 0.0, 0
    for size in SIZES:
        x = values[:, start : start + size]
        start += size
        share = size / sum(SIZES)
        of_problems += share**2 * np.var(x.mean(axis=0), ddof=1) / size
        squares = 0.0
        for s in range(seeds):
            for j in range(size):
                squares += (x[s, j] - x[s].mean() - x[:, j].mean() + x.mean()) ** 2
        mean_square = squares / ((seeds - 1) * (size - 1))
        interaction += share**2 * mean_square / (seeds * size)
    of_seeds = float(np.var(values.mean(axis=1), ddof=1)) / seeds
    return [of_problems, of_seeds, of_problems + max(0.0, of_seeds - interaction)]


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_error_is_that_of_the_two_way_layout_in_strata(seeds: int) -> None:
    values = differences(seeds)
    found = mean_of_scores(values, SIZES)
    errors = found.error_problems, found.error_seeds, found.error
    assert np.square(errors).tolist() == pytest.approx(variances_by_hand(values))
    assert found.value == pytest.approx(values.mean())
    assert (found.degrees, found.seeds) == (sum(SIZES) - len(SIZES), seeds)
    assert found.error > found.error_problems > 0


def test_the_error_is_at_least_that_over_problems() -> None:
    """Where seeds vary no more than the interaction explains, as half of the time without any."""
    rng = np.random.default_rng(5)
    equal = 0
    for _ in range(50):
        found = mean_of_scores(rng.normal(size=(3, 50)), (50,))
        assert found.error >= found.error_problems
        equal += found.error == found.error_problems
    assert 10 < equal < 40


def test_what_two_methods_have_in_common_with_a_seed_is_no_error_of_their_difference() -> None:
    rng = np.random.default_rng(6)
    first, second = rng.random((2, 3, 40))
    common = 10 * rng.random((3, 1))
    alone = mean_of_scores(first - second, (40,))
    found = mean_of_scores((first + common) - (second + common), (40,))
    assert found.error_seeds == pytest.approx(alone.error_seeds)
    assert found.error == pytest.approx(alone.error)


def test_one_seed_gives_no_error_over_seeds_and_a_base_policy_has_none() -> None:
    values = differences(1)
    one = mean_of_scores(values, SIZES)
    assert np.isnan(one.error_seeds)
    assert one.error == one.error_problems > 0
    base = mean_of_scores(values, SIZES, trained=False)
    assert (base.error_seeds, base.error, base.seeds) == (0.0, one.error, 0)
    for found in (one, base):
        half = one.error * stats.t.ppf(0.975, sum(SIZES) - len(SIZES))
        assert found.interval() == pytest.approx((values.mean() - half, values.mean() + half))
        t = values.mean() / one.error
        assert found.p_values().two_sided == pytest.approx(
            2 * stats.t.sf(t, sum(SIZES) - len(SIZES))
        )


def test_a_benchmark_of_one_problem_adds_to_the_mean_but_has_no_interaction() -> None:
    values = np.random.default_rng(7).random((3, 5))
    found = mean_of_scores(values, (4, 1))
    assert found.value == pytest.approx(values.mean())
    assert np.isnan(found.error)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("error_seeds", [0.001, 0.02, 0.5])
def test_critical_values_are_those_of_cochran_and_cox(seeds: int, error_seeds: float) -> None:
    """The t of both errors, weighted by their variances; p-values are the inverse."""
    error = np.hypot(0.02, error_seeds)
    found = Estimate(0.05, 0.02, error_seeds, error, 100, seeds)
    weights = np.array([0.02**2, error_seeds**2])

    def critical(tail: float) -> float:
        return float(np.average(stats.t.isf(tail, [100, seeds - 1]), weights=weights))

    for tail in (0.2, 0.025, 1e-4, 1e-12):
        assert found.critical(tail) == pytest.approx(critical(tail))
    assert found.interval() == pytest.approx(
        (0.05 - error * critical(0.025), 0.05 + error * critical(0.025))
    )
    tail = optimize.bisect(lambda one: critical(one) - 0.05 / error, 1e-12, 0.5, xtol=1e-15)
    assert found.p_above(0) == pytest.approx(tail)
    assert found.p_below(0) == pytest.approx(1 - tail)
    assert found.p_below(0.1) == pytest.approx(tail)
    assert found.p_values().two_sided == pytest.approx(2 * tail)


def test_critical_values_lie_between_those_of_the_two_errors() -> None:
    """So p-values do, and each end is reached where one of the errors is 0."""
    t = stats.t.isf(0.025, [100, 2])
    values = [Estimate(0, 0.02, e, 0.03, 100, 3).critical(0.025) for e in (0.0, 0.01, 0.1, 1e6)]
    assert values[0] == pytest.approx(t[0])
    assert values[-1] == pytest.approx(t[1])
    assert values == sorted(values)
    assert Estimate(0, 0.0, 0.01, 0.01, 100, 3).critical(0.025) == pytest.approx(t[1])


def test_a_p_value_too_small_to_compute_is_the_smallest() -> None:
    found = Estimate(1e200, 0.02, 0.001, 0.02, 100, 3)
    assert 0 < found.p_above(0) <= 1e-49
    certain = Estimate(0.1, 0.0, 0.0, 0.0, 100, 3)
    assert (certain.p_above(0), certain.p_below(0)) == (0.0, 1.0)


def test_two_seeds_give_an_interval_but_no_p_value() -> None:
    found = mean_of_scores(differences(2), SIZES)
    low, high = found.interval()
    weights = found.error_problems**2, found.error_seeds**2
    t = np.average(stats.t.isf(0.025, [found.degrees, 1]), weights=weights)
    assert (low, high) == pytest.approx(
        (found.value - t * found.error, found.value + t * found.error)
    )
    assert np.isnan([found.p_above(0), found.p_below(0)]).all()
    assert np.isnan(found.p_values().two_sided)
    assert np.isnan(found.p_values(0.02)).all()


def test_runs_of_one_value_are_compared_by_students_test_of_their_differences() -> None:
    runs = np.array([0.31, 0.35, 0.33, 0.28])
    found, other = mean_of_runs(runs), stats.ttest_1samp(runs, 0)
    assert found.p_values().two_sided == pytest.approx(other.pvalue)
    assert found.interval() == pytest.approx(tuple(other.confidence_interval(0.95)))
    assert (found.error_seeds, found.seeds) == (found.error, 4)
    assert np.isnan(found.error_problems)
    one_run = mean_of_runs([0.3])
    assert (one_run.value, one_run.seeds) == (0.3, 1)
    assert np.isnan([one_run.error, one_run.degrees]).all()
    assert (mean_of_steps([0.3]).seeds, mean_of_steps([0.3, 0.4]).seeds) == (1, 1)
    assert np.isnan(mean_of_runs([0.3, 0.4]).p_above(0))
    assert mean_of_steps([0.3, 0.4]).p_above(0) == pytest.approx(
        stats.ttest_1samp([0.3, 0.4], 0, alternative="greater").pvalue
    )


def test_the_least_p_value_to_print_is_that_of_the_number_of_seeds() -> None:
    assert [least_p_of_seeds(seeds) for seeds in range(8)] == [0, 0, 0.01, 0.01, 0.01] + [0.001] * 3


@pytest.mark.parametrize("name", ["0.6 and 0.6", "2.4 and 0.5", "3 and 3"])
@pytest.mark.parametrize("seeds", LIMITS)
@pytest.mark.parametrize("sizes", [MANY, FEW], ids=["many", "few"])
def test_intervals_cover_the_truth_where_methods_vary_differently_over_seeds(
    seeds: int, name: str, sizes: tuple[int, ...]
) -> None:
    """A small version of `python -m benchmarks coverage`, with limits for fewer repeats."""
    found = coverage(PATTERNS[name], sizes, seeds, repeats=400)
    limits = LIMITS[seeds]
    assert limits.covered - 0.025 <= found.covered < 0.998
    assert found.covered >= found.satterthwaite
    assert not found.below[0] > limits.below + 0.015


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
