"""What every objective must do; the formulas themselves are in `exact.py`."""

import re
import statistics
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rspo.objectives import OBJECTIVES, response_weights
from tests.support import exact

Formula = Callable[[exact.Rewards, int], exact.Weights]

FORMULAS: dict[str, Formula] = {
    "policy_gradient": exact.policy_gradient,
    "hitchhiking": exact.hitchhiking,
    "rspo_pass_at_k": exact.pass_at_k_as_printed,
    "rspo_pass_at_k_plug_in": exact.pass_at_k_plug_in,
    "rspo_max_at_k": exact.max_at_k_appendix,
    "rspo_max_at_k_ranked": exact.max_at_k_main_text,
    "rspo_max_at_k_plug_in": exact.max_at_k_plug_in,
}
UNBIASED = ("hitchhiking", "rspo_pass_at_k", "rspo_max_at_k", "rspo_max_at_k_ranked")
RSPO_UNBIASED = ("rspo_pass_at_k", "rspo_max_at_k", "rspo_max_at_k_ranked")
PLUGINS = ("rspo_pass_at_k_plug_in", "rspo_max_at_k_plug_in")
MAX_AT_K = ("rspo_max_at_k", "rspo_max_at_k_ranked")
ORDER_MATTERS = {"hitchhiking"}

# Differences of this relative size are rounding: float64 has 1.1e-16, and n is small here.
ROUNDING = 1e-13

property_test = settings(max_examples=40, deadline=None, derandomize=True)


def allowed_ks(objective: str, n: int) -> list[int]:
    """Every k up to n + 2 that the objective accepts for groups of n."""
    return [k for k in range(1, n + 3) if OBJECTIVES[objective].k_rule.allows(k, n)]


def groups_for(objective: str, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    """Rewards that the objective accepts and that float16 and bfloat16 hold exactly, with ties."""
    rng = np.random.default_rng(seed)
    if OBJECTIVES[objective].binary:
        return rng.integers(0, 2, shape).astype(np.float64)
    return rng.integers(-8, 9, shape) / 4.0


def assert_equal_up_to_rounding(
    found: NDArray[Any], expected: exact.Weights, relative: float = ROUNDING
) -> None:
    for i, (value, truth) in enumerate(zip(found.tolist(), expected, strict=True)):
        error = abs(Fraction(value) - truth)
        assert error <= Fraction(relative) * abs(truth), (i, value, float(truth))


@st.composite
def rewards_for(draw: st.DrawFn, objective: str, max_n: int) -> list[Fraction]:
    """Multiples of 1/4, exact in every dtype, few enough values for ties to be common."""
    values = st.integers(0, 1) if OBJECTIVES[objective].binary else st.integers(-8, 8)
    smallest = 2 if objective == "grpo" else 1
    quarters = draw(st.lists(values, min_size=smallest, max_size=max_n))
    unit = 1 if OBJECTIVES[objective].binary else 4
    return [Fraction(q, unit) for q in quarters]


def as_float(rewards: exact.Rewards) -> NDArray[np.float64]:
    return np.array([float(reward) for reward in rewards])


# --- Each objective is its formula -----------------------------------------------------------


def test_every_objective_has_a_formula_to_be_held_against() -> None:
    assert set(OBJECTIVES) == {*FORMULAS, "grpo"}


@pytest.mark.parametrize("objective", FORMULAS)
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


def test_grpo_and_policy_gradient_ignore_k() -> None:
    rewards = np.array([0.0, 1.0, 1.0, 0.5])
    for objective in ("grpo", "policy_gradient"):
        without = response_weights(rewards, objective)
        assert (response_weights(rewards, objective, k=99) == without).all()


def test_hitchhiking_takes_its_groups_in_the_order_of_sampling() -> None:
    weights = response_weights(np.array([0.0, 3.0, 1.0, -1.0, -5.0, -4.0]), "hitchhiking", k=2)
    assert weights == pytest.approx(np.array([3, 3, 1, 1, -4, -4]) * 2 / 6)


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
def test_formula_is_exactly_unbiased(objective: str, one_policy: exact.Policy) -> None:
    n = 4
    for k in allowed_ks(objective, n):
        estimate = one_policy.expected_estimate_of(FORMULAS[objective], n, k)
        assert estimate == one_policy.gradient_of_max_at_k(k), k


@pytest.mark.parametrize(("objective", "one_policy"), CASES)
def test_code_is_unbiased_up_to_its_own_rounding(objective: str, one_policy: exact.Policy) -> None:
    n = 4 if len(one_policy.rewards) == 4 else 5
    for k in allowed_ks(objective, n):
        estimate = expected_estimate_of_code(one_policy, objective, n, k)
        for found, truth in zip(estimate, one_policy.gradient_of_max_at_k(k), strict=True):
            assert abs(found - truth) < 1e-14, k


@pytest.mark.parametrize("one_policy", REAL_POLICIES.values(), ids=REAL_POLICIES)
def test_policy_gradient_is_unbiased_for_the_mean_reward(one_policy: exact.Policy) -> None:
    estimate = expected_estimate_of_code(one_policy, "policy_gradient", n=3, k=1)
    for found, truth in zip(estimate, one_policy.gradient_of_max_at_k(1), strict=True):
        assert abs(found - truth) < 1e-14


@pytest.mark.parametrize("objective", PLUGINS)
def test_plugins_are_biased_where_the_unbiased_one_is_not(objective: str) -> None:
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


def test_pass_at_k_plug_in_loses_its_bias_as_n_grows() -> None:
    # Fair coin again, k = 2, by the binomial distribution of the number of right answers c.
    def bias(n: int) -> float:
        expectation = 0.0
        for c in range(n + 1):
            rewards = np.repeat([1.0, 0.0], [c, n - c])
            weights = response_weights(rewards, "rspo_pass_at_k_plug_in", k=2)
            expectation += comb(n, c) / 2**n * float(weights @ (rewards - 0.5))
        return abs(expectation - 0.25)

    assert bias(64) < bias(16) / 3 < bias(4) / 9


@pytest.mark.parametrize("k", [2, 4])
def test_max_at_k_plug_in_approaches_the_unbiased_one_where_no_rewards_are_equal(k: int) -> None:
    def difference(n: int) -> float:
        rewards = np.linspace(-1.0, 1.0, n)
        plugin = response_weights(rewards, "rspo_max_at_k_plug_in", k)
        return float(n * abs(plugin - response_weights(rewards, "rspo_max_at_k", k)).max())

    assert difference(256) < difference(64) / 3 < difference(16) / 9


@property_test
@given(data=st.data(), k=st.integers(1, 12))
def test_max_at_k_plug_in_on_binary_rewards_is_k_times_policy_gradient(
    data: st.DataObject, k: int
) -> None:
    # A limit of the formula, not of the code: it stands on P_<= = P_<, which equal rewards break
    # for every n. With F = 1 for all right responses nothing risk-seeking is left of it.
    rewards = as_float(data.draw(rewards_for("rspo_pass_at_k", max_n=20)))
    found = response_weights(rewards, "rspo_max_at_k_plug_in", k)
    np.testing.assert_allclose(found, k * rewards / len(rewards), rtol=1e-14)


# --- Identities ------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
@property_test
@given(data=st.data())
def test_weight_is_the_marginal_contribution(objective: str, data: st.DataObject) -> None:
    rewards = data.draw(rewards_for(objective, max_n=8))
    for k in range(1, len(rewards) + 1):
        found = response_weights(as_float(rewards), objective, k)
        assert_equal_up_to_rounding(found, exact.marginal_contributions(rewards, k))


@property_test
@given(rewards=rewards_for("rspo_max_at_k", max_n=7))
def test_all_forms_of_the_max_at_k_estimator_are_one(rewards: list[Fraction]) -> None:
    for k in range(2, len(rewards) + 1):
        truth = exact.marginal_contributions(rewards, k)
        assert exact.max_at_k_appendix(rewards, k) == truth
        assert exact.max_at_k_without_cancellation(rewards, k) == truth
        assert exact.pkpo_loo_minus_one(rewards, k) == truth


@pytest.mark.parametrize("objective", MAX_AT_K)
@property_test
@given(rewards=rewards_for("rspo_max_at_k", max_n=12))
def test_max_at_k_is_pkpo_s_loo_minus_one(objective: str, rewards: list[Fraction]) -> None:
    for k in range(2, len(rewards) + 1):
        found = response_weights(as_float(rewards), objective, k)
        assert_equal_up_to_rounding(found, exact.pkpo_loo_minus_one(rewards, k))


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_on_binary_rewards_max_at_k_is_pass_at_k(n: int) -> None:
    for correct in range(n + 1):
        right_and_wrong = np.repeat([1.0, 0.0], [correct, n - correct])
        rewards = np.random.default_rng(n).permutation(right_and_wrong)
        for k in range(1, n + 1):
            expected = exact.pass_at_k_as_a_product(exact.fractions(rewards), k)
            for objective in RSPO_UNBIASED:
                assert_equal_up_to_rounding(response_weights(rewards, objective, k), expected)


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o != "grpo"])
@property_test
@given(data=st.data())
def test_k_1_is_policy_gradient(objective: str, data: st.DataObject) -> None:
    rewards = as_float(data.draw(rewards_for(objective, max_n=20)))
    found = response_weights(rewards, objective, k=1)
    np.testing.assert_allclose(found, rewards / len(rewards), rtol=1e-15)


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
@property_test
@given(data=st.data())
def test_rspo_weights_are_never_negative_for_k_above_1(objective: str, data: st.DataObject) -> None:
    rewards = as_float(data.draw(rewards_for(objective, max_n=20)))
    for k in range(2, len(rewards) + 1):
        assert (response_weights(rewards, objective, k) >= 0).all()


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
@property_test
@given(data=st.data())
def test_a_response_that_beats_nobody_has_weight_0_and_a_better_one_never_less(
    objective: str, data: st.DataObject
) -> None:
    rewards = as_float(data.draw(rewards_for(objective, max_n=20)))
    for k in range(2, len(rewards) + 1):
        weights = response_weights(rewards, objective, k)
        assert (weights[rewards == rewards.min()] == 0).all()
        assert (np.diff(weights[np.argsort(rewards)]) >= 0).all()


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
@property_test
@given(data=st.data())
def test_equal_rewards_get_equal_weights(objective: str, data: st.DataObject) -> None:
    rewards = as_float(data.draw(rewards_for(objective, max_n=20)))
    for k in range(1, len(rewards) + 1):
        weights = response_weights(rewards, objective, k)
        for value in np.unique(rewards):
            assert len(set(weights[rewards == value].tolist())) == 1


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
def test_all_weights_are_0_exactly_where_fewer_than_k_minus_1_are_wrong(objective: str) -> None:
    n = 16
    for correct in range(1, n + 1):
        rewards = np.repeat([1.0, 0.0], [correct, n - correct])
        for k in range(1, n + 1):
            weights = response_weights(rewards, objective, k)
            if n - correct < k - 1:
                assert not weights.any()
            else:  # and only there
                assert (weights[:correct] > 0).all()


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
def test_a_prompt_without_a_right_response_has_no_weight(objective: str) -> None:
    for k in range(1, 9):
        assert not response_weights(np.zeros((3, 8)), objective, k).any()


@pytest.mark.parametrize("objective", MAX_AT_K)
@pytest.mark.parametrize("offset", [0.0, 2.0**20, -(2.0**40)])
def test_shifting_all_rewards_changes_no_weight(objective: str, offset: float) -> None:
    # The printed difference of two large sums loses every digit of a large common reward.
    rewards = [Fraction(q, 16) for q in (3, -5, 8, 8, 0, 1, -2, 11)]
    for k in range(2, len(rewards) + 1):
        found = response_weights(as_float(rewards) + offset, objective, k)
        assert_equal_up_to_rounding(found, exact.marginal_contributions(rewards, k))


# --- Large groups: no overflow, no lost digits -----------------------------------------------

LARGE_N = 4096
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


def column_of_binomials(a: int) -> list[int]:
    """C(a, b) for b = 0 .. LARGE_N, each from the one before."""
    column = [1]
    for b in range(1, LARGE_N + 1):
        column.append(column[-1] * (a - b + 1) // b if b <= a else 0)
    return column


def assert_accurate(found: float, numerator: int, denominator: int) -> bool:
    """Relative error <= 1e-9; returns whether there was a relative error to speak of.

    Below the smallest normal float64 (2.2e-308) digits are lost whatever one does, so there the
    value must only be as small as the truth is, and exactly 0 where the truth is.
    """
    truth = numerator / denominator  # of integers: correctly rounded, however long they are
    if truth >= SMALLEST_NORMAL:
        assert abs(found - truth) <= 1e-9 * truth, (found, truth)
        return True
    assert 0.0 <= found < 1e-300
    assert numerator > 0 or found == 0.0
    return False


def test_pass_at_k_of_4096_responses_is_accurate_for_every_k() -> None:
    corrects = [1, 2, 7, 64, 2048, 4000, 4095, 4096]
    rewards = (np.arange(LARGE_N) < np.array(corrects)[:, None]).astype(np.float64)
    numerators = [column_of_binomials(LARGE_N - correct) for correct in corrects]
    denominators = column_of_binomials(LARGE_N - 1)
    normal = 0
    for k in range(1, LARGE_N + 1):
        first = response_weights(rewards, "rspo_pass_at_k", k)[:, 0].tolist()
        for found, column in zip(first, numerators, strict=True):
            denominator = LARGE_N * denominators[k - 1]
            normal += assert_accurate(found, k * column[k - 1], denominator)
    # Not idle: with 1, 2, 7 right nearly every k counts, with 4000 right hardly any.
    assert normal > 3 * 4000


@pytest.mark.parametrize("objective", MAX_AT_K)
def test_max_at_k_of_4096_responses_is_accurate_for_every_k(objective: str) -> None:
    # With rewards 0, 1, .., n-1 the marginal contributions have a closed form: the gaps are all
    # 1 and sum_{m <= i} C(m, k-1) = C(i+1, k), so the response with reward i has the weight
    # (k/n) C(i+1, k) / C(n-1, k-1). (Held against enumeration in the test below.)
    places = [1, 2, 3, 17, 300, 1024, 2047, 2048, 3000, 3500, 3900, 4000, 4090, 4094, 4095]
    numerators = [column_of_binomials(i + 1) for i in places]
    denominators = column_of_binomials(LARGE_N - 1)
    rewards = np.arange(LARGE_N, dtype=np.float64)
    normal = 0
    for k in range(2, LARGE_N + 1):
        weights = response_weights(rewards, objective, k)
        assert np.isfinite(weights).all()
        for found, column in zip(weights[places].tolist(), numerators, strict=True):
            denominator = LARGE_N * denominators[k - 1]
            normal += assert_accurate(found, k * column[k], denominator)
    assert normal > 4 * 4000


def test_the_closed_form_for_evenly_spaced_rewards_is_the_marginal_contribution() -> None:
    n = 8
    for k in range(2, n + 1):
        closed = [Fraction(k * comb(i + 1, k), n * comb(n - 1, k - 1)) for i in range(n)]
        assert closed == exact.marginal_contributions([Fraction(i) for i in range(n)], k)


@pytest.mark.parametrize("k", [2, 3, 4, 8, 16, 64, 256, 1000, 2047, 2048, 3000, 4000, 4095, 4096])
def test_max_at_k_of_4096_uneven_rewards_is_accurate_for_every_response(k: int) -> None:
    # Shuffled integers, ties and negative ones among them, against exact integer sums
    # sum_{j <= c_<} (R_i - R_(j)) C(j-1, k-2).
    rewards = np.random.default_rng(k).integers(-3000, 3000, LARGE_N)
    order = np.argsort(rewards, kind="stable")
    ascending = rewards[order].tolist()
    denominator = LARGE_N * comb(LARGE_N - 1, k - 1)
    weights = response_weights(rewards.astype(np.float64), "rspo_max_at_k", k)[order].tolist()
    term, terms, rewarded_terms, normal = 0, 0, 0, 0
    for position, reward in enumerate(ascending):
        if position == 0 or reward > ascending[position - 1]:
            numerator = k * (reward * terms - rewarded_terms)
        normal += assert_accurate(weights[position], numerator, denominator)
        # `term` is C(j-1, k-2) with j = position + 1.
        term = comb(position, k - 2) if position <= k - 2 else term * position // (position - k + 2)
        terms += term
        rewarded_terms += term * reward
    assert normal > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_memory_grows_no_faster_than_the_group(objective: str) -> None:
    # A table of all pairs would take 128 GiB here, a table of all subsets has no name.
    n = 2**17
    rewards = groups_for(objective, (n,))
    tracemalloc.start()
    try:
        weights = response_weights(rewards, objective, k=4)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.isfinite(weights).all()
    assert peak < 40 * rewards.nbytes


# --- Order of the responses, and of the prompts ----------------------------------------------


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o not in ORDER_MATTERS])
@property_test
@given(data=st.data())
def test_weights_follow_their_responses_through_any_permutation(
    objective: str, data: st.DataObject
) -> None:
    rewards = as_float(data.draw(rewards_for(objective, max_n=12)))
    n = len(rewards)
    permutation = data.draw(st.permutations(range(n)))
    k = data.draw(st.sampled_from(allowed_ks(objective, n)))
    before = response_weights(rewards, objective, k)
    after = response_weights(rewards[permutation], objective, k)
    np.testing.assert_allclose(after, before[permutation], rtol=1e-12, atol=1e-15)


def test_hitchhiking_depends_on_the_order_of_the_responses() -> None:
    together = response_weights(np.array([1.0, 1.0, 0.0, 0.0]), "hitchhiking", k=2)
    apart = response_weights(np.array([1.0, 0.0, 1.0, 0.0]), "hitchhiking", k=2)
    assert together.sum() < apart.sum()


@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 4)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_prompt_is_weighed_alone(objective: str, leading: tuple[int, ...]) -> None:
    n = 6
    rewards = groups_for(objective, (*leading, n))
    for k in allowed_ks(objective, n):
        together = response_weights(rewards, objective, k)
        assert together.shape == rewards.shape
        for index in np.ndindex(leading):
            alone = response_weights(rewards[index], objective, k)
            assert (together[index] == alone).all()


# --- Kinds of array --------------------------------------------------------------------------

NUMPY_DTYPES = [np.float16, np.float32, np.float64]
TORCH_DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SHAPES = [(6,), (1, 6), (4, 6), (2, 3, 6), (0, 6), (2, 0, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_numpy_in_numpy_out_computed_in_double_and_rounded_once(
    objective: str, dtype: type, shape: tuple[int, ...]
) -> None:
    rewards = groups_for(objective, shape)
    weights = response_weights(rewards.astype(dtype), objective, k=2)
    assert isinstance(weights, np.ndarray)
    assert weights.dtype == dtype
    assert weights.shape == shape
    assert (weights == response_weights(rewards, objective, k=2).astype(dtype)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_torch_gives_numpy_s_numbers_with_its_own_dtype_and_device(
    objective: str, dtype: torch.dtype, shape: tuple[int, ...], device: str
) -> None:
    rewards = groups_for(objective, shape)
    given_rewards = torch.from_numpy(rewards).to(device, dtype)
    weights = response_weights(given_rewards, objective, k=2)
    assert isinstance(weights, torch.Tensor)
    assert weights.dtype == dtype
    assert weights.device == given_rewards.device
    assert weights.shape == given_rewards.shape
    expected = torch.from_numpy(response_weights(rewards, objective, k=2)).to(device, dtype)
    assert torch.equal(weights, expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rewards_are_left_as_they_were_and_share_no_memory_with_the_weights(
    objective: str,
) -> None:
    rewards = groups_for(objective, (3, 4))
    for k in allowed_ks(objective, 4):
        array, tensor = rewards.copy(), torch.tensor(rewards)
        response_weights(array, objective, k)[:] = 99.0
        response_weights(tensor, objective, k)[:] = 99.0
        assert (array == rewards).all()
        assert (tensor.numpy() == rewards).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_read_only_and_strided_arrays_are_welcome(objective: str) -> None:
    rewards = groups_for(objective, (4, 6))
    expected = response_weights(rewards, objective, k=2)
    transposed = np.asfortranarray(rewards)
    transposed.setflags(write=False)
    assert (response_weights(transposed, objective, k=2) == expected).all()
    tensor = torch.tensor(rewards.T.copy()).T
    assert not tensor.is_contiguous()
    assert (response_weights(tensor, objective, k=2).numpy() == expected).all()


def test_weights_are_constants_to_autograd() -> None:
    rewards = torch.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    for objective in OBJECTIVES:
        assert not response_weights(rewards, objective, k=2).requires_grad


def test_numpy_integers_are_integers() -> None:
    rewards = np.array([0.0, 1.0, 0.0, 1.0])
    found = response_weights(rewards, "rspo_pass_at_k", k=np.int32(2))  # type: ignore[arg-type]
    assert (found == response_weights(rewards, "rspo_pass_at_k", k=2)).all()


def test_plugins_take_k_above_n() -> None:
    rewards = [Fraction(r) for r in (0, 1, 0, 1)]
    for objective in PLUGINS:
        found = response_weights(as_float(rewards), objective, k=7)
        assert_equal_up_to_rounding(found, FORMULAS[objective](rewards, 7))


# --- What is refused, and in which words -----------------------------------------------------


def refusal(error: type[Exception], rewards: Any, objective: str, k: Any = 2) -> str:
    """The message; each must name what was found and what is allowed."""
    with pytest.raises(error) as raised:
        response_weights(rewards, objective, k)
    return str(raised.value)


KINDS = [np.asarray, torch.tensor]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", ["rspo_pass_at_k", "rspo_pass_at_k_plug_in"])
@pytest.mark.parametrize("found", [0.5, -1.0, 2.0, 1.0 + 1e-12])
def test_pass_at_k_refuses_rewards_other_than_0_and_1(
    kind: Callable[..., Any], objective: str, found: float
) -> None:
    rewards = np.array([[0.0, 1.0, 1.0], [1.0, found, 0.0]])
    message = refusal(ValueError, kind(rewards), objective)
    assert str(found) in message
    assert "0 or 1" in message
    assert objective in message
    assert "(1, 1)" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("found", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite_are_refused(
    kind: Callable[..., Any], objective: str, found: float
) -> None:
    rewards = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, found]])
    message = refusal(ValueError, kind(rewards), objective)
    assert str(found) in message
    assert "finite" in message
    assert "(2, 1)" in message


@pytest.mark.parametrize("objective", RSPO_UNBIASED)
@pytest.mark.parametrize("k", [5, 4096])
def test_unbiased_estimators_refuse_k_above_n(objective: str, k: int) -> None:
    message = refusal(ValueError, np.zeros((3, 4)), objective, k)
    assert re.search(rf"k = {k}\b.*n = 4\b.*1 <= k <= n", message)


@pytest.mark.parametrize("k", [3, 5, 8])
def test_hitchhiking_refuses_k_that_does_not_divide_n(k: int) -> None:
    message = refusal(ValueError, np.zeros((3, 4)), "hitchhiking", k)
    assert re.search(rf"k = {k}\b.*n = 4\b.*k divides n", message)


@pytest.mark.parametrize("objective", sorted({*OBJECTIVES} - {"grpo", "policy_gradient"}))
@pytest.mark.parametrize("k", [0, -1])
def test_k_below_1_is_refused(objective: str, k: int) -> None:
    message = refusal(ValueError, np.zeros((3, 4)), objective, k)
    assert f"k = {k}" in message
    assert OBJECTIVES[objective].k_rule.value in message


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("k", [2.0, 1.5, "2", None, True, np.float64(2.0)])
def test_k_that_is_no_integer_is_refused(objective: str, k: Any) -> None:
    message = refusal(ValueError, np.zeros((3, 4)), objective, k)
    assert repr(k) in message
    assert "integer" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 0)], ids=str)
def test_empty_groups_are_refused(
    kind: Callable[..., Any], objective: str, shape: tuple[int, ...]
) -> None:
    message = refusal(ValueError, kind(np.zeros(shape)), objective, k=1)
    assert str(shape) in message
    assert "n >= 1" in message


def test_grpo_refuses_groups_of_one() -> None:
    message = refusal(ValueError, np.zeros((3, 1)), "grpo")
    assert "n >= 2" in message
    assert "n = 1" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "complex64"])
def test_rewards_of_another_dtype_are_refused(kind: Callable[..., Any], dtype: str) -> None:
    message = refusal(TypeError, kind(np.zeros((2, 4), dtype)), "rspo_pass_at_k")
    assert dtype in message
    assert "floating" in message


@pytest.mark.parametrize("found", [[0.0, 1.0], (0.0, 1.0), 1.0, np.float64(1.0), None])
def test_rewards_that_are_no_array_are_refused(found: Any) -> None:
    message = refusal(TypeError, found, "rspo_pass_at_k")
    assert type(found).__name__ in message
    assert "numpy" in message
    assert "torch" in message


def test_an_unknown_objective_is_refused_with_all_known_ones() -> None:
    message = refusal(ValueError, np.zeros(4), "rspo_pass@k")
    assert "'rspo_pass@k'" in message
    for name in OBJECTIVES:
        assert name in message
