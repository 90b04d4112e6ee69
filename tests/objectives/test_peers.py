"""The objectives of other papers: what they maximize, and where they fail.

test_weights.py compares them with their formulas.
"""

from fractions import Fraction
from math import asin, sqrt

import numpy as np
import pytest

from rspo.objectives import response_weights
from rspo.objectives.diagnose import diagnose
from rspo.objectives.order_statistics import bottom_half, median, order_statistic, top_half
from tests.objectives.test_weights import BINARY_POLICIES, REAL_POLICIES
from tests.support.exact import Policy
from tests.support.groups import allowed_ks
from tests.support.peers import EXACT

SHIFT_INVARIANT = (
    *("maxpo", "ordergrad_top_half", "ordergrad_median", "ordergrad_bottom_half"),
    *("grpo_passk", "tailrl_centred", "rs_grpo", "ttt_entropic"),
)


@pytest.mark.parametrize("objective", SHIFT_INVARIANT)
@pytest.mark.parametrize("offset", [-(2.0**20), 2.0**30])
def test_shifting_all_rewards_changes_nothing(objective: str, offset: float) -> None:
    rewards = np.array([3, -5, 8, 8, 0, 1, -2, 11]) / 16
    for k in allowed_ks(objective, 8):
        before = response_weights(rewards, objective, k)
        after = response_weights(rewards + offset, objective, k)
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


# --- What they are unbiased for, by enumeration of every draw ---------------------------------


def gradient_by_enumeration(policy: Policy, k: int, statistic) -> list[Fraction]:  # type: ignore[no-untyped-def]
    """Score-function gradient of E[statistic of k rewards]."""
    return policy.expected_estimate(
        k, lambda drawn: [Fraction(statistic(sorted(policy.rewards_of(drawn))))] * k
    )


def dot(coefficients: list[float]):  # type: ignore[no-untyped-def]
    return lambda rewards: sum(
        Fraction(a).limit_denominator(100) * r for a, r in zip(coefficients, rewards, strict=True)
    )


POLICIES = {**BINARY_POLICIES, **REAL_POLICIES}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    ("objective", "statistic"),
    [
        ("pkpo_s", max),
        ("pkpo_s_loo", max),
        ("maxpo", max),
        ("ordergrad_top_half", lambda rewards: dot(top_half(len(rewards)))(rewards)),
        ("ordergrad_median", lambda rewards: dot(median(len(rewards)))(rewards)),
        ("ordergrad_bottom_half", lambda rewards: dot(bottom_half(len(rewards)))(rewards)),
    ],
)
def test_estimators_of_order_statistics_are_exactly_unbiased(  # type: ignore[no-untyped-def]
    objective: str, statistic, policy: Policy
) -> None:
    n = 4
    for k in range(1, n):
        found = policy.expected_estimate_of(EXACT[objective], n, k)
        assert found == gradient_by_enumeration(policy, k, statistic), k


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(("objective", "terms"), [("tailrl", 4), ("tailrl_centred", 3)])
def test_tailrl_is_unbiased_for_the_sum_of_max_at_j_over_j(
    objective: str, terms: int, policy: Policy
) -> None:
    found = policy.expected_estimate_of(EXACT[objective], 4, 1)
    gradients = [policy.gradient_of_max_at_k(j) for j in range(1, terms + 1)]
    expected = [
        sum((g / j for j, g in enumerate(column, 1)), start=Fraction(0))
        for column in zip(*gradients, strict=True)
    ]
    assert found == expected


# --- What they maximize on 0/1 rewards ---------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_passk_training_approaches_the_arcsine_of_the_root_of_pass_at_k(k: int) -> None:
    def arcsine(p: float) -> float:
        return 2 / k * asin(sqrt(1 - (1 - p) ** k))

    def error(n: int, p: float) -> float:
        expected = (arcsine(p + 1e-6) - arcsine(p - 1e-6)) / 2e-6
        (slope,) = diagnose("passk_training", k, n, [p]).weights.slope
        return abs(float(slope) / expected - 1)

    for p in (0.1, 0.3, 0.5):
        assert error(400, p) < error(100, p) / 3
        assert error(400, p) < 0.02


# --- Identities and failure cases --------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(512, 1), (512, 256), (512, 511), (4096, 64)])
def test_order_statistics_of_large_groups_are_accurate(n: int, k: int) -> None:
    rewards = np.random.default_rng(k).normal(size=n)
    best = order_statistic(lambda size: [0.0] * (size - 1) + [1.0])
    expected = response_weights(rewards, "maxpo", k)
    np.testing.assert_allclose(best(rewards, k), expected, rtol=1e-8, atol=1e-9 / n)


@pytest.mark.parametrize("correct", [2, 3, 4])
def test_ttt_entropic_where_half_or_more_are_best_is_the_limit(correct: int) -> None:
    found = response_weights(np.repeat([1.0, 0.0], [correct, 4 - correct]), "ttt_entropic")
    best = (3 / (correct - 1) - 1) / 4
    assert found.tolist() == pytest.approx([best] * correct + [-0.25] * (4 - correct))
