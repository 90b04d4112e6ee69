"""The number of seeds that resolve a difference, against the power of Student's t-test."""

import math

import numpy as np
import pytest
from scipy import stats

from rspo.evaluation.seeds_needed import (
    error_without_seeds,
    seeds_needed,
    smallest_resolvable,
)
from rspo.evaluation.statistics import Estimate, difference_of_runs


def power_of_t(difference: float, spread: float, runs: int, level: float) -> float:
    """Of the two-sided t-test of two methods with `runs` runs each, in the right direction."""
    degrees = 2 * runs - 2
    shift = difference / (spread * math.sqrt(2 / runs))
    return float(stats.nct.sf(stats.t.ppf(1 - level / 2, degrees), degrees, shift))


@pytest.mark.parametrize("difference", [0.4, 0.8, 1.5])
@pytest.mark.parametrize("tests", [1, 6])
def test_runs_without_problems_need_as_many_as_the_t_test_says(
    difference: float, tests: int
) -> None:
    """Two methods whose runs have the same spread, 1: the number at which the power is 80 %."""
    runs = np.array([-1.0, 0.0, 1.0])
    estimate = difference_of_runs(runs + difference, runs)
    assert estimate.degrees == pytest.approx(4)
    needed = seeds_needed(estimate, difference, 3, tests)
    assert needed is not None
    assert power_of_t(difference, 1.0, needed, 0.05 / tests) == pytest.approx(0.8, abs=0.06)
    smaller = max(2, math.floor(0.8 * needed))
    assert power_of_t(difference, 1.0, smaller, 0.05 / tests) < 0.8


def estimate(error_problems: float, error_seeds: float, value: float = 1.0) -> Estimate:
    error = math.hypot(error_problems, error_seeds)
    return Estimate(value, error_problems, error_seeds, error, 6.0)


def test_more_problems_are_needed_where_their_error_alone_is_too_large() -> None:
    large = estimate(error_problems=0.5, error_seeds=0.5)
    assert error_without_seeds(large) == pytest.approx(0.5)
    assert seeds_needed(large, 1.0, 3) is None
    assert smallest_resolvable(0.5) > 1.0
    small = estimate(error_problems=0.2, error_seeds=0.5)
    assert seeds_needed(small, 1.0, 3) is not None
    # 1.959964 + 0.841621, and 2.241403 + 0.841621 at level .025 (tables of the normal distribution)
    assert smallest_resolvable(1.0) == pytest.approx(2.801585, abs=1e-5)
    assert smallest_resolvable(0.2, tests=2) == pytest.approx(0.2 * 3.083024, abs=1e-5)


def test_both_ends_of_a_margin_count() -> None:
    """Of an equivalence test with the estimate in the middle, by simulated t statistics."""
    middle = estimate(0.0, 1.0, value=0.0)
    needed = seeds_needed(middle, 2.0, 3, other_distance=2.0)
    assert needed is not None
    assert needed > seeds_needed(middle, 2.0, 3)  # one end only

    def power(seeds: int) -> float:
        degrees, error = 6 * (seeds - 1) / 2, math.sqrt(3 / seeds)
        draw = np.random.default_rng(0)
        values = error * draw.standard_normal(200_000)
        errors = error * np.sqrt(draw.chisquare(degrees, len(values)) / degrees)
        limit = stats.t.ppf(0.975, degrees) * errors
        return float(np.mean((values + limit < 2.0) & (values - limit > -2.0)))

    assert power(needed) == pytest.approx(0.8, abs=0.06)
    assert power(needed - 1) < 0.82
