"""Errors, intervals and adjusted p-values against simulation, enumeration and scipy."""

from itertools import chain, combinations, product

import numpy as np
import pytest
from scipy import stats

from rspo.estimators import pass_at_k
from rspo.evaluation.pass_at_k import curve_points
from rspo.evaluation.statistics import (
    Floats,
    holm,
    mean_of_scores,
    mean_of_steps,
)
from rspo.passk import least_p
from tests.support.outcomes import outcomes_of

# Four benchmarks, each with its own distribution of success probabilities.
SIZES = (30, 60, 40, 70)
SHAPES = ((0.4, 2.0), (1.0, 1.0), (2.0, 2.0), (0.5, 0.6))
SAMPLES, K = 16, 4


def chances(
    rng: np.random.Generator, repeats: int, seeds: int, spread: float, better: float = 0.4
) -> Floats:
    """Success probabilities of two methods on new problems, [2, repeats, seeds, problems].

    Sums of logits: problem, problem x method, method (the first is better), training seed (with the
    given spread) and seed x problem.
    """
    easy = [rng.beta(a, b, (repeats, 1, size)) for (a, b), size in zip(SHAPES, SIZES, strict=True)]
    problems = np.concatenate(easy, axis=2)
    logits = np.log(problems / (1 - problems)) + 0.5 * rng.standard_normal(
        (2, repeats, 1, sum(SIZES))
    )
    logits = logits + np.array([better, 0.0])[:, None, None, None]
    if seeds > 1:
        logits = logits + spread * rng.standard_normal((2, repeats, seeds, 1))
        logits = logits + 0.4 * rng.standard_normal((2, repeats, seeds, sum(SIZES)))
    return 1 / (1 + np.exp(-logits))


def passed(chance: Floats) -> Floats:
    return 1 - (1 - chance) ** K


@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.05), (3, 0.5)], ids=str)
def test_95_percent_intervals_of_paired_differences_cover_95_percent(
    seeds: int, spread: float
) -> None:
    """Over new problems of every benchmark and, with three seeds, new trainings.

    With one seed the truth is that of the given policies. With three seeds that hardly vary,
    intervals are wider than needed, because three seeds cannot show it.
    """
    rng = np.random.default_rng(1)
    truth = np.mean(
        [
            passed(p[0]).mean() - passed(p[1]).mean()
            for p in [chances(rng, 400, seeds, spread) for _ in range(10)]
        ]
    )
    covered, repeats = 0, 1200
    found = chances(rng, repeats, seeds, spread)
    estimates = pass_at_k(SAMPLES, rng.binomial(SAMPLES, found), K)
    for first, second in zip(*estimates, strict=True):
        low, high = mean_of_scores(first - second, SIZES).interval()
        covered += low <= truth <= high
    assert 0.93 <= covered / repeats <= (0.97 if seeds == 1 else 0.99)


def test_95_percent_intervals_of_pooled_curves_cover_95_percent() -> None:
    """Problems are resampled within each benchmark."""
    rng = np.random.default_rng(3)
    truth = np.mean([passed(p[0]).mean() for p in [chances(rng, 400, 1, 0.0) for _ in range(10)]])
    covered, repeats = 0, 800
    for number, chance in enumerate(chances(rng, repeats, 1, 0.0)[0, :, 0]):
        right = rng.random((chance.size, SAMPLES)) < chance[:, None]
        (row,) = curve_points(outcomes_of(right, sizes=SIZES), ["pass_at_k"], [K], 200, number)
        covered += row["low"] <= truth <= row["high"]
    assert 0.93 <= covered / repeats <= 0.97


def test_bands_of_a_small_hard_benchmark_are_too_narrow_and_the_docs_say_by_how_much() -> None:
    """30 problems, few of them ever solved; docs/statistics.md says about 90 %."""
    rng = np.random.default_rng(6)
    chance = rng.beta(0.15, 1.5, (800, 30))
    covered = 0
    for number, row in enumerate(chance):
        right = rng.random((30, SAMPLES)) < row[:, None]
        (point,) = curve_points(outcomes_of(right), ["pass_at_k"], [1], 400, number)
        covered += point["low"] <= 0.15 / 1.65 <= point["high"]
    assert 0.87 <= covered / len(chance) <= 0.93


def test_the_mean_of_steps_has_students_p_values_also_of_an_equivalence() -> None:
    steps, margin = np.array([0.20, -0.08, 0.21, 0.19]), 0.3

    def p(threshold: float, alternative: str = "greater") -> float:
        return float(stats.ttest_1samp(steps, threshold, alternative=alternative).pvalue)

    for sign in (1, -1):
        found = mean_of_steps(sign * steps)
        one_sided = (p(0), p(0, "less"))[::sign]
        assert found.p_values() == pytest.approx((*one_sided, p(0, "two-sided")))
        # Schuirmann's test, and the smaller p-value of the two claims that are its opposite.
        equivalent = max(p(-margin), p(margin, "less"))
        opposite = min(p(margin), p(-margin, "less"))
        assert found.p_values(margin) == pytest.approx((equivalent, opposite, equivalent))
        # With a margin below the value the opposite is claimed, on either side of 0.
        narrow = max(p(-0.01), p(0.01, "less")), min(p(0.01), p(-0.01, "less"))
        assert found.p_values(0.01) == pytest.approx((*narrow, 2 * min(narrow)))
        assert np.isnan([found.error_problems, found.error_seeds]).all()
        # At the margin, neither the equivalence nor its opposite has any evidence.
        assert found.p_values(abs(steps.mean())).two_sided == 1.0
    single = mean_of_steps([0.3])
    assert single.value == 0.3
    assert np.isnan(single.error)
    assert np.isnan(single.p_values()).all()


@pytest.mark.parametrize("differing", [1, 2, 5])
def test_the_least_p_is_that_of_all_sign_flips(differing: int) -> None:
    """Of problems that all differ in one direction, the most significant case."""
    flips = [abs(sum(signs)) for signs in product((1, -1), repeat=differing)]
    assert least_p(differing) == np.mean([flip >= differing for flip in flips])
    assert least_p(0) == 1.0


def test_a_difference_of_exactly_zero_is_no_evidence() -> None:
    found = mean_of_scores(np.zeros((1, 20)), (20,))
    assert (found.value, found.error) == (0.0, 0.0)
    assert found.p_above(0) == found.p_below(0) == 0.5
    assert found.p_below(0.02) == 0.0  # but equivalence is certain


def test_a_benchmark_of_one_problem_has_no_error_over_problems() -> None:
    found = mean_of_scores(np.random.default_rng(0).random((3, 5)), (4, 1))
    assert np.isnan(found.error)
    assert np.isnan([found.p_above(0), found.p_below(0), *found.interval()]).all()


def closed_testing(p: Floats) -> list[float]:
    """Holm's procedure as a closed test.

    A hypothesis is rejected if Bonferroni's test rejects every set that contains it.
    """
    indices = range(len(p))
    sets = list(chain(*(combinations(indices, size) for size in range(1, len(p) + 1))))
    return [
        max(min(1.0, len(one) * min(p[j] for j in one)) for one in sets if i in one)
        for i in indices
    ]


@pytest.mark.parametrize("tests", [1, 2, 3, 7])
def test_holm_is_the_closed_test_of_bonferroni(tests: int) -> None:
    rng = np.random.default_rng(tests)
    for _ in range(20):
        p = rng.random(tests) ** 3
        p[rng.integers(tests)] = p[0]  # ties
        assert holm(p).tolist() == pytest.approx(closed_testing(p))
    assert holm([]).tolist() == []
