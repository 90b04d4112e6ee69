"""Pass@k, pass^k, Max@k and their variances against enumeration and exact rational arithmetic."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Any

import numpy as np
import pytest

from rspo.estimators import (
    distinct_values,
    max_at_k,
    max_at_k_variance,
    max_at_k_with_errors,
    pass_at_k,
    pass_at_k_variance,
    pass_hat_k,
    pass_hat_k_variance,
)
from tests.support import subsets
from tests.support.exact import max_at_k_estimate

SIZES = [1, 2, 3, 7, 16, 64, 255, 1024]
ROUNDING = 1e-11  # relative: more than a thousand rounding errors of 1.1e-16


def ks_of(n: int) -> list[int]:
    return sorted({k for k in (1, 2, 3, n // 3, n // 2, n // 2 + 1, n - 1, n) if 1 <= k <= n})


@pytest.mark.parametrize("n", SIZES)
def test_pass_at_k_and_pass_hat_k_and_their_variances_are_exact(n: int) -> None:
    """Also in relative error: for n = 1024, c = 1 a variance is a difference of 1e-6 near 1."""
    counts = np.arange(n + 1)
    for k in ks_of(n):
        all_wrong = [Fraction(comb(n - c, k), comb(n, k)) for c in range(n + 1)]
        passed, every = pass_at_k(n, counts, k), pass_hat_k(n, counts, k)
        exact = [float(1 - value) for value in all_wrong]
        assert passed.tolist() == pytest.approx(exact, rel=ROUNDING)
        exact = [float(value) for value in all_wrong[::-1]]
        assert every.tolist() == pytest.approx(exact, rel=ROUNDING, abs=1e-300)
        assert passed[0] == 0.0
        assert (passed[n - k + 1 :] == 1.0).all()
        assert (every[:k] == 0.0).all()
        assert every[n] == 1.0
        variance = pass_at_k_variance(n, counts, k)
        of_every = pass_hat_k_variance(n, counts, k)
        if 2 * k > n:
            assert np.isnan([variance, of_every]).all()
            continue
        exact = [
            float(value**2 - Fraction(comb(n - c, 2 * k), comb(n, 2 * k)))
            for c, value in enumerate(all_wrong)
        ]
        assert variance.tolist() == pytest.approx(exact, rel=1e-9, abs=1e-300)
        assert of_every.tolist() == pytest.approx(exact[::-1], rel=1e-9, abs=1e-300)
        assert (variance >= 0).all()


@pytest.mark.parametrize("n", SIZES)
def test_max_at_k_is_exact(n: int) -> None:
    """Ties, negative rewards and one outlier included."""
    rng = np.random.default_rng(n)
    rewards = rng.integers(-8, 9, n) / 4.0
    rewards[0] = 1e6
    for k in ks_of(n):
        exact = max_at_k_estimate([Fraction(reward) for reward in rewards.tolist()], k)
        assert max_at_k(rewards, k) == pytest.approx(float(exact), rel=ROUNDING)


def max_variance(rewards: list[Fraction], k: int) -> Fraction:
    """The definition: squared mean of the maxima minus the mean product over disjoint pairs."""
    indices = range(len(rewards))
    pairs = [
        max(rewards[i] for i in first) * max(rewards[i] for i in second)
        for first in combinations(indices, k)
        for second in combinations([i for i in indices if i not in first], k)
    ]
    return max_at_k_estimate(rewards, k) ** 2 - sum(pairs, Fraction(0)) / len(pairs)


def max_variance_by_ranks(ascending: list[Fraction], k: int) -> Fraction:
    """The same, with pairs of disjoint subsets counted by the ranks of their maxima."""
    n, smaller, products = len(ascending), Fraction(0), Fraction(0)
    for rank, reward in enumerate(ascending):
        if rank >= k:
            products += 2 * reward * comb(rank - k, k - 1) * smaller
        smaller += reward * comb(rank, k - 1)
    return max_at_k_estimate(ascending, k) ** 2 - products / (comb(n, k) * comb(n - k, k))


@pytest.mark.parametrize("n", [6, 64, 255, 1024])
def test_max_at_k_variance_is_exact(n: int) -> None:
    rng = np.random.default_rng(n)
    rewards = np.sort(rng.integers(-64, 65, n) / 64.0)
    exact = [Fraction(reward) for reward in rewards.tolist()]
    if n == 6:
        for k in (1, 2, 3):
            assert max_variance_by_ranks(exact, k) == max_variance(exact, k)
    for k in ks_of(n):
        if 2 * k <= n:
            expected = float(max_variance_by_ranks(exact, k))
            assert max_at_k_variance(rewards, k) == pytest.approx(expected, rel=1e-8, abs=1e-15)
        else:
            assert np.isnan(max_at_k_variance(rewards, k))


def test_distinct_values_are_those_of_all_subsets() -> None:
    samples = [0, 0, 1, 2, 2, 2, None]  # one without a value
    for k in range(1, 8):
        found = [len({*subset} - {None}) for subset in combinations(samples, k)]
        assert distinct_values(7, [[2, 1, 3, 0]], k) == pytest.approx(np.mean(found))


VALUES = (Fraction(-1), Fraction(0), Fraction(3, 4))
CHANCES = (Fraction(1, 6), Fraction(1, 2), Fraction(1, 3))


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 1), (4, 2), (6, 2), (6, 3)])
def test_estimates_and_variances_are_unbiased(n: int, k: int) -> None:
    """By enumeration of all outcomes of n draws: the mean of the estimate is the expected best of
    k draws, and the mean of the estimated variance is the variance of the estimate."""
    outcomes = list(product(range(3), repeat=n))
    chances = np.array([float(prod(CHANCES[i] for i in drawn)) for drawn in outcomes])
    rewards = np.array([[float(VALUES[i]) for i in drawn] for drawn in outcomes])
    best = sum(
        float(prod(CHANCES[i] for i in drawn) * max(VALUES[i] for i in drawn))
        for drawn in product(range(3), repeat=k)
    )
    estimates = max_at_k(rewards, k)
    assert chances @ estimates == pytest.approx(best, abs=1e-12)
    variance = chances @ (estimates - best) ** 2
    assert variance > 1e-3
    assert chances @ max_at_k_variance(rewards, k) == pytest.approx(variance, abs=1e-12)

    right = (rewards == 0.75).sum(axis=1)
    passed = 1 - (1 - float(CHANCES[2])) ** k
    estimates = pass_at_k(n, right, k)
    assert chances @ estimates == pytest.approx(passed, abs=1e-12)
    variance = chances @ (estimates - passed) ** 2
    assert chances @ pass_at_k_variance(n, right, k) == pytest.approx(variance, abs=1e-12)

    all_right = float(CHANCES[2]) ** k
    estimates = pass_hat_k(n, right, k)
    assert chances @ estimates == pytest.approx(all_right, abs=1e-12)
    variance = chances @ (estimates - all_right) ** 2
    assert chances @ pass_hat_k_variance(n, right, k) == pytest.approx(variance, abs=1e-12)


def test_shapes_are_kept() -> None:
    counts = np.arange(6).reshape(2, 3)
    for estimate in (pass_at_k, pass_at_k_variance, pass_hat_k, pass_hat_k_variance):
        assert estimate(8, counts, 2).shape == (2, 3)
    rewards = np.zeros((2, 3, 8))
    assert max_at_k(rewards, 2).shape == max_at_k_variance(rewards, 2).shape == (2, 3)
    assert max_at_k_variance(rewards, 5).shape == (2, 3)
    assert float(pass_at_k(8, 1, 2)) == 0.25
    assert float(max_at_k([0.0, 1.0], 2)) == 1.0


@pytest.mark.parametrize("spread", [0.0, 1.0])  # of the problems: the error of sampling, or more
def test_a_mean_and_its_errors_are_those_of_all_subsets(spread: float) -> None:
    rng = np.random.default_rng(5)
    prompts = [(rng.random(n) + spread * n).tolist() for n in (4, 5, 6, 4)]
    for k in (1, 2, 3):
        expected = subsets.mean_with_errors(prompts, k)
        assert max_at_k_with_errors(prompts, k) == pytest.approx(expected, nan_ok=True)
    assert np.isnan(max_at_k_with_errors(prompts[:1], 1)[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda k=k, f=f: f(8, [1], k), message)
            for k, message in ((0, "k must be an integer of at least 1"), (9, "k = 9 with n = 8"))
            for f in (pass_at_k, pass_at_k_variance, pass_hat_k, pass_hat_k_variance)
        ),
        *(
            (lambda f=f: f(np.zeros(8), 9), "k = 9 with n = 8")
            for f in (max_at_k, max_at_k_variance)
        ),
        *(
            (lambda c=c, f=f: f(8, [c], 1), "integers from 0 to n = 8")
            for c in (-1, 9, 0.5, float("nan"))
            for f in (pass_at_k, pass_hat_k)
        ),
        *(
            (lambda f=f: f(4, [[True, False, True, True]], 2), "with n = 4, sum them over the")
            for f in (pass_at_k, pass_hat_k)
        ),
        (lambda: max_at_k([0.0, float("nan")], 1), "must be finite"),
        (lambda: pass_at_k(10, [3], 2.5), "k must be an integer of at least 1, got 2.5"),  # type: ignore[arg-type]
        (lambda: max_at_k([1, 2], True), "k must be an integer of at least 1, got True"),
        (lambda: pass_at_k(10.5, [3], 2), "n must be whole numbers, got"),
        (lambda: pass_at_k([10.0, np.nan], [3, 4], 2), "n must be whole numbers, got"),
        (lambda: max_at_k(3.0, 1), "rewards need a last axis of n samples"),
        (lambda: distinct_values(4, [4, 4], 2), "counts of values must sum to at most n = 4"),
    ],
)
def test_impossible_arguments_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
