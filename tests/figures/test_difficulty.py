"""Gains by difficulty: no gain without training, also where the base model was lucky."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from rspo.figures import difficulty
from rspo.figures.methods import Method

PROBLEMS, N = 4000, 32
Correct = NDArray[np.bool_]


def sampled(rates: NDArray[np.float64], seed: int) -> Correct:
    rng = np.random.default_rng(seed)
    drawn: Correct = rng.random((len(rates), N)) < rates[:, None]
    return drawn


@pytest.fixture(scope="module")
def rates() -> NDArray[np.float64]:
    """Success rates of problems, many of them hard."""
    return np.random.default_rng(0).beta(0.5, 1.5, PROBLEMS)


def gains(base: Correct, trained: Correct, k: int) -> pd.DataFrame:
    rows = difficulty.gains(Method("trained", "policy_gradient"), base, trained[None], k)
    return pd.DataFrame(rows, columns=list(difficulty.COLUMNS))


@pytest.mark.parametrize("k", [1, 4])
def test_a_policy_with_the_same_success_rates_gains_nothing_in_any_group(
    rates: NDArray[np.float64], k: int
) -> None:
    table = gains(sampled(rates, 1), sampled(rates, 2), k)
    assert len(table) == len(difficulty.ENDS)
    error = (table["high"] - table["low"]) / (2 * 1.96)
    assert (table["estimate"].abs() < 4 * error).all()


def test_the_gain_of_each_group_is_the_gain_that_was_planted(rates: NDArray[np.float64]) -> None:
    """Only problems with a rate below 0.2 improve, by 30 points."""
    better = np.where(rates < 0.2, rates + 0.3, rates)
    base = sampled(rates, 1)
    table = gains(base, sampled(better, 2), 1)
    groups = difficulty.groups_of(base)
    for row in table.to_dict("records"):
        true = 100 * (better - rates)[groups == row["group"]].mean()
        assert row["low"] - 1 < true < row["high"] + 1
    assert table["estimate"].iloc[0] > 25
    assert abs(table["estimate"].iloc[-1]) < 1.5


def test_groups_are_numbers_of_correct_samples() -> None:
    """Of the first 16: none, up to 2, 4, 8 and 16; the other 16 do not count."""
    correct = np.arange(32)[None, :] < np.arange(17)[:, None]  # 0 to 16 correct
    for others in (False, True):
        correct[:, 16:] = others
        assert difficulty.groups_of(correct).tolist() == [0, 1, 1, 2, 2, *[3] * 4, *[4] * 8]
