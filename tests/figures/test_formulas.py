"""The formulas behind the figures of the paper's theory, computed in another way."""

import math
from fractions import Fraction
from itertools import combinations, pairwise, product
from statistics import NormalDist, fmean

import numpy as np
import pytest

from rspo.figures import disjoint, group, hitchhiking, intro, maxk_weight, passk_weight


def test_intro_values_and_crossing() -> None:
    """E[max] from the tail, and by enumeration for small k; Pass@k by the binomial's terms."""
    for policy, distribution in intro.REWARDS.items():
        assert sum(distribution.values()) == 1
        for k in (1, 2, 3):
            draws = product(distribution.items(), repeat=k)
            mean = sum(max(r for r, _ in d) * math.prod(p for _, p in d) for d in draws)
            assert intro.expected_maximum(distribution, k) == mean
        for k in intro.K:
            support = [Fraction(0), *sorted(distribution)]
            tail = Fraction(0)
            for lower, upper in pairwise(support):
                up_to = sum((p for r, p in distribution.items() if r <= lower), Fraction(0))
                tail += (upper - lower) * (1 - up_to**k)
            assert intro.expected_maximum(distribution, k) == tail
            solved = intro.PROMPTS[policy]
            some = [
                sum(math.comb(k, j) * w**j * (1 - w) ** (k - j) for j in range(1, k + 1))
                for w in solved.values()
            ]
            assert intro.pass_at_k(solved, k) == sum(some) / len(some)


def test_hitchhiking_weights_by_subsets() -> None:
    rewards, k, n = hitchhiking.REWARDS, hitchhiking.K, len(hitchhiking.REWARDS)
    drawn = hitchhiking.table().set_index(["quantity", "response"])["value"]
    for i, reward in enumerate(rewards):
        others = [r for j, r in enumerate(rewards) if j != i]
        gains = [max(reward, *s) - max(s) for s in combinations(others, k - 1)]
        assert drawn["RSPO weight", i + 1] == pytest.approx(k / n * fmean(gains))
        group = rewards[i // k * k :][:k]
        assert drawn["baseline weight", i + 1] == pytest.approx(k / n * max(group))


def test_weights_of_a_group_by_subsets() -> None:
    """Times n, each method's weight by its definition: RSPO's is a mean over subsets."""
    k = group.K
    drawn = group.table().set_index(["group", "objective", "response"])["weight"]
    for name, rewards in group.GROUPS.items():
        n = len(rewards)
        mean = fmean(rewards)
        deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / (n - 1))
        for i, reward in enumerate(rewards):
            others = [r for j, r in enumerate(rewards) if j != i]
            gains = [max(reward, *s) - max(s) for s in combinations(others, k - 1)]
            expected = {
                "policy_gradient": reward,
                "grpo": (reward - mean) / deviation,
                "hitchhiking": k * max(rewards[i // k * k :][:k]),
                "rspo_pass_at_k": k * fmean(gains),
            }
            for objective, weight in expected.items():
                assert drawn[name, objective, i + 1] == pytest.approx(weight, abs=1e-5), objective


def test_disjoint_cases() -> None:
    """37/216 is the sum of the products in the paper's caption, and (4^3 - 3^3) / 6^3."""
    table = disjoint.table()
    values = {
        (row.kind, row.case, row.die): Fraction(row.numerator, row.denominator)
        for row in table[table["kind"] != "face"].astype(object).fillna(0).itertuples()
    }
    equal, less, at_most = Fraction(1, 6), Fraction(3, 6), Fraction(4, 6)
    for case in (1, 2, 3):
        expected = less ** (case - 1) * equal * at_most ** (3 - case)
        assert values["case", case, 0] == expected
        assert math.prod(values["factor", case, die] for die in (1, 2, 3)) == expected
    assert values["total", 0, 0] == Fraction(4**3 - 3**3, 6**3) == Fraction(37, 216)


def test_passk_boundary_by_bisection() -> None:
    """The weight, k (1 - p)^(k-1), is the slope of Pass@k = 1 - (1 - p)^k."""
    table = passk_weight.table().set_index("panel").astype(float)
    boundary = table.loc["boundary"]
    assert [*boundary["k"]][:5] == [1, 1.25, 1.5, 1.75, 2]
    assert set(boundary["weight"]) == {1.0}
    for k, w in zip(boundary["k"], boundary["w"], strict=True):
        k = 1 + 1e-9 if k == 1 else k  # at k = 1 the limit is drawn
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            above = math.log(k) + (k - 1) * math.log1p(-middle) > 0
            low, high = (middle, high) if above else (low, middle)
        assert w == pytest.approx(low, abs=1e-6)
    k, w, value = table.loc["weight"].query("w < 1").to_numpy().T
    slope = ((1 - w + 1e-6) ** k - (1 - w - 1e-6) ** k) / 2e-6
    assert value == pytest.approx(slope, abs=1e-6)


def test_maxk_weight_by_another_integral() -> None:
    """k int (R - r)(k-1) Phi^(k-2) phi dr, the paper's form before parts, by the trapezium rule."""
    normal = NormalDist()
    grid = np.linspace(-9, 3, 4001)
    cdf = np.array([normal.cdf(r) for r in grid])
    pdf = np.array([normal.pdf(r) for r in grid])
    table = maxk_weight.table().query("panel == 'weight'")
    assert {*table["k"]} == {2, 4, 8}
    for row in table.itertuples():
        inside = np.clip(row.reward - grid, 0, None) * (row.k - 1) * cdf ** (row.k - 2) * pdf
        assert row.value == pytest.approx(row.k * np.trapezoid(inside, grid), abs=2e-5)
