"""Groups of rewards for tests of the objectives, and comparison up to rounding."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rspo.objectives import OBJECTIVES, KRule
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
PLUG_INS = ("rspo_pass_at_k_plug_in", "rspo_max_at_k_plug_in")
MAX_AT_K = ("rspo_max_at_k", "rspo_max_at_k_ranked")
ORDER_MATTERS = {"hitchhiking"}

# Largest relative rounding error of float64 (1.1e-16) for the small n of these tests.
ROUNDING = 1e-13

property_test = settings(max_examples=40, deadline=None, derandomize=True)


def allowed_ks(objective: str, n: int) -> list[int]:
    """Every k up to n + 2 that the objective accepts for groups of n."""
    return [k for k in range(1, n + 3) if OBJECTIVES[objective].allows(k, n)]


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
    smallest = 2 if OBJECTIVES[objective].k_rule is KRule.LESS_THAN_N else 1
    smallest = max(smallest, OBJECTIVES[objective].least_n)
    quarters = draw(st.lists(values, min_size=smallest, max_size=max_n))
    unit = 1 if OBJECTIVES[objective].binary else 4
    return [Fraction(q, unit) for q in quarters]


def as_float(rewards: exact.Rewards) -> NDArray[np.float64]:
    return np.array([float(reward) for reward in rewards])
