"""Gains by difficulty: none without training, also where the base model was lucky."""

import numpy as np
import pandas as pd
import pytest

from rspo.figures import difficulty
from rspo.figures.difficulty import Halves

PROBLEMS, N, SEEDS = 1500, 32, 2
Floats = np.ndarray


def sampled(rates: Floats, seed: int) -> Halves:
    """Responses of a policy with these success rates, [seeds, problems]."""
    rng = np.random.default_rng(seed)
    both = [rng.binomial(N // 2, rates) for _ in range(2)]
    return Halves(*both)


@pytest.fixture(scope="module")
def rates() -> Floats:
    """Success rates of problems, many of them hard; those of a seed are not those of another."""
    return np.random.default_rng(0).beta(0.5, 1.5, (SEEDS, PROBLEMS))


def gains(before: Halves, after: Halves, k: int) -> pd.DataFrame:
    return pd.DataFrame(difficulty.gains(before, after, N, k, [PROBLEMS]))


@pytest.mark.parametrize("k", [1, 4])
def test_a_policy_with_the_same_success_rates_gains_nothing_in_any_group(
    rates: Floats, k: int
) -> None:
    table = gains(sampled(rates, 1), sampled(rates, 2), k)
    assert len(table) == len(difficulty.ENDS)
    error = (table["high"] - table["low"]) / (2 * 1.96)
    assert (table["estimate"].abs() < 4 * error).all()


def test_the_same_responses_for_both_would_look_like_a_gain(rates: Floats) -> None:
    """So the test above can fail: here the deciding half is also that of the gains."""
    before = sampled(rates, 1)
    table = gains(Halves(before.first, before.first), sampled(rates, 2), 1)
    assert table["low"].iloc[0] > 1
    assert table["high"].iloc[-1] < -1


def test_the_gain_of_each_group_is_the_gain_that_was_planted(rates: Floats) -> None:
    """Only problems with a rate below 0.2 improve, by 30 points."""
    better = np.where(rates < 0.2, rates + 0.3, rates)
    base = sampled(rates, 1)
    table = gains(base, sampled(better, 2), 1)
    groups = difficulty.groups_of(base.first, N // 2)
    for row in table.to_dict("records"):
        true = 100 * (better - rates)[groups == row["group"]].mean()
        assert row["low"] - 1 < true < row["high"] + 1
    assert table["estimate"].iloc[0] > 25
    assert abs(table["estimate"].iloc[-1]) < 1.5


def test_groups_are_numbers_of_correct_responses() -> None:
    """Of 16: none, up to 2, 4, 8 and 16."""
    expected = [0, 1, 1, 2, 2, *[3] * 4, *[4] * 8]
    assert difficulty.groups_of(np.arange(17), 16).tolist() == expected


def test_an_interval_is_at_least_as_wide_as_the_spread_of_repetitions() -> None:
    """Of other seeds and problems. It is wider: the interaction of both is in it repeatedly."""
    found = []
    widths = []
    for seed in range(40):
        drawn = np.random.default_rng(100 + seed).beta(0.5, 1.5, (SEEDS, PROBLEMS))
        table = gains(sampled(drawn, 2 * seed), sampled(drawn, 2 * seed + 1), 1)
        found.append(table["estimate"].iloc[3])
        widths.append((table["high"] - table["low"]).iloc[3] / (2 * 1.96))
    assert 0.8 < np.mean(widths) / np.std(found, ddof=1) < 2.5
