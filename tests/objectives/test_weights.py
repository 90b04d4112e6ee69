"""Each objective equals its formula in tests/support, with the known identities."""

import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rspo.objectives import OBJECTIVES, response_weights
from tests.support import exact
from tests.support.groups import (
    FORMULAS,
    MAX_AT_K,
    PLUG_INS,
    ROUNDING,
    UNBIASED,
    allowed_ks,
    as_float,
    assert_equal_up_to_rounding,
    property_test,
    rewards_for,
)
from tests.support.peers import PEERS

# --- Each objective is its formula -----------------------------------------------------------


def test_every_objective_has_a_reference_formula() -> None:
    assert set(OBJECTIVES) == {*FORMULAS, *PEERS, "grpo"}


@pytest.mark.parametrize("objective", [*FORMULAS, *PEERS])
@property_test
@given(data=st.data())
def test_weights_are_the_formula(objective: str, data: st.DataObject) -> None:
    rewards = data.draw(rewards_for(objective, max_n=7))
    for k in allowed_ks(objective, len(rewards)):
        assert_is_formula(objective, rewards, k)


@pytest.mark.parametrize("objective", [o for o in FORMULAS if not OBJECTIVES[o].binary])
def test_weights_keep_every_digit_of_float64_rewards(objective: str) -> None:
    for seed in range(5):
        rewards = np.random.default_rng(seed).normal(size=8)  # no float32 holds these
        for k in allowed_ks(objective, len(rewards)):
            assert_is_formula(objective, exact.fractions(rewards.tolist()), k)


def assert_is_formula(objective: str, rewards: list[Fraction], k: int) -> None:
    found = response_weights(as_float(rewards), objective, k)
    if objective in PEERS:
        expected = np.array([float(weight) for weight in PEERS[objective](rewards, k)])
        scale = 1 + max(abs(float(reward)) for reward in rewards)
        tolerance = 1e-9 if objective == "ttt_entropic" else 1e-13 * k
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
        return
    truth = FORMULAS[objective](rewards, k)
    if objective == "rspo_max_at_k_plug_in":  # a difference: rounding scales with its terms
        scale = 2 * k * max(abs(reward) for reward in rewards)
        assert max(abs(found - as_float(truth))) <= ROUNDING * float(scale)
    else:
        assert_equal_up_to_rounding(found, truth)


@pytest.mark.parametrize("n", [2, 3, 16])
def test_grpo_is_the_centred_reward_over_the_sample_standard_deviation(n: int) -> None:
    rewards = np.random.default_rng(n).normal(size=(5, n))
    found = response_weights(rewards, "grpo")
    for row, weights in zip(rewards.tolist(), found.tolist(), strict=True):
        mean, deviation = statistics.fmean(row), statistics.stdev(row)
        expected = [(reward - mean) / (deviation + 1e-6) / n for reward in row]
        assert weights == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_grpo_gives_nothing_to_a_group_whose_rewards_are_all_equal() -> None:
    assert not response_weights(np.array([[1.0] * 6, [0.0] * 6]), "grpo").any()


# --- The estimates are unbiased, exactly -----------------------------------------------------


def policy(rewards: str, probabilities: str) -> exact.Policy:
    return exact.Policy(
        tuple(Fraction(r) for r in rewards.split()),
        tuple(Fraction(p) for p in probabilities.split()),
    )


BINARY_POLICIES = {
    "one right, one wrong": policy("0 1", "2/3 1/3"),
    "hard: one right in ten": policy("0 1", "9/10 1/10"),
    "two ways to be right, two to be wrong": policy("0 1 0 1", "1/2 1/4 1/8 1/8"),
}
REAL_POLICIES = {
    "distinct rewards": policy("-1/2 1/4 2", "1/2 1/3 1/6"),
    "ties between different responses": policy("1/2 1/2 2", "1/5 2/5 2/5"),
    "only negative rewards, with a tie": policy("-3 -1 -1/4 -1", "1/8 1/4 1/8 1/2"),
}
CASES = [
    pytest.param(objective, one_policy, id=f"{objective}-{name}")
    for objective in UNBIASED
    for name, one_policy in {
        **BINARY_POLICIES,
        **({} if OBJECTIVES[objective].binary else REAL_POLICIES),
    }.items()
]


def expected_estimate_of_code(
    one_policy: exact.Policy, objective: str, n: int, k: int
) -> list[Fraction]:
    """The expectation of what the code returns, summed without further rounding."""
    outcomes = [drawn for drawn, _ in one_policy.outcomes(n)]
    rewards = np.array([as_float(one_policy.rewards_of(drawn)) for drawn in outcomes])
    weights = response_weights(rewards, objective, k).tolist()
    table = dict(zip(outcomes, map(exact.fractions, weights), strict=True))
    return one_policy.expected_estimate(n, table.__getitem__)


@pytest.mark.parametrize("one_policy", [*BINARY_POLICIES.values(), *REAL_POLICIES.values()])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_reference_gradient_is_the_derivative_of_the_enumerated_objective(
    one_policy: exact.Policy, k: int
) -> None:
    # Max@k by enumeration is a polynomial of degree k in each probability; hitchhiking with
    # n = k is its score-function gradient, which shares nothing with `gradient_of_max_at_k`.
    by_score = one_policy.expected_estimate(
        k, lambda drawn: [max(one_policy.rewards_of(drawn))] * k
    )
    assert by_score == one_policy.gradient_of_max_at_k(k)


@pytest.mark.parametrize(("objective", "one_policy"), CASES)
def test_code_is_unbiased_up_to_its_own_rounding(objective: str, one_policy: exact.Policy) -> None:
    n = 4 if len(one_policy.rewards) == 4 else 5
    for k in allowed_ks(objective, n):
        estimate = expected_estimate_of_code(one_policy, objective, n, k)
        for found, truth in zip(estimate, one_policy.gradient_of_max_at_k(k), strict=True):
            assert abs(found - truth) < 1e-14, k


@pytest.mark.parametrize("objective", PLUG_INS)
def test_plug_ins_are_biased_where_the_unbiased_one_is_not(objective: str) -> None:
    # A fair coin, n = k = 2. Pass@2 = 1 - (1-p)^2 has the gradient 2(1-p)p(1-p) = 1/4. Only the
    # two mixed outcomes (probability 1/4 each) have a weight, (2/2)(1 - 1/2) = 1/2, times
    # grad log pi = 1/2, so the plug-in expects 1/8. For Max@2 R_i F_i stays 1 when both are
    # right, which adds 2 * (2/2) * 1 * 1/2 / 4 = 1/4, and 1 * 1/2 / 4 twice: in all 1/2.
    coin = policy("0 1", "1/2 1/2")
    truth = coin.gradient_of_max_at_k(2)
    assert truth == [Fraction(-1, 4), Fraction(1, 4)]
    estimate = expected_estimate_of_code(coin, objective, n=2, k=2)
    unbiased = expected_estimate_of_code(coin, objective.removesuffix("_plug_in"), n=2, k=2)
    biased = {"rspo_pass_at_k_plug_in": Fraction(1, 8), "rspo_max_at_k_plug_in": Fraction(1, 2)}
    assert unbiased == truth
    assert estimate == [-biased[objective], biased[objective]]


# --- Identities ------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", MAX_AT_K)
@pytest.mark.parametrize("offset", [0.0, 2.0**20, -(2.0**40)])
def test_shifting_all_rewards_changes_no_weight(objective: str, offset: float) -> None:
    # The printed difference of two large sums loses every digit of a large common reward.
    rewards = [Fraction(q, 16) for q in (3, -5, 8, 8, 0, 1, -2, 11)]
    for k in range(2, len(rewards) + 1):
        found = response_weights(as_float(rewards) + offset, objective, k)
        assert_equal_up_to_rounding(found, exact.marginal_contributions(rewards, k))
