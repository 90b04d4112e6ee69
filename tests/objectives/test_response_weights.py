"""`response_weights` for large groups, any order, any kind of array, and bad arguments."""

import re
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from rspo.objectives import OBJECTIVES, KRule, Objective, register, response_weights
from tests.support.groups import (
    FORMULAS,
    MAX_AT_K,
    ORDER_MATTERS,
    PLUG_INS,
    RSPO_UNBIASED,
    allowed_ks,
    as_float,
    assert_equal_up_to_rounding,
    groups_for,
    property_test,
    rewards_for,
)
from tests.support.registries import restored

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
    """Relative error <= 1e-9. Returns whether the true value is a normal float64.

    Below the smallest normal float64 (2.2e-308), the value must only be very small, and 0 if the
    true value is 0.
    """
    truth = numerator / denominator  # division of integers rounds correctly
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
    # With 1, 2 or 7 correct responses, the weights are normal numbers for nearly every k.
    assert normal > 3 * 4000


@pytest.mark.parametrize("objective", MAX_AT_K)
@pytest.mark.parametrize("k", [2, 3, 16, 256, 2048, 3000, 4095, 4096])
def test_max_at_k_of_4096_rewards_is_accurate_for_every_response(objective: str, k: int) -> None:
    # Shuffled integers, ties and negative ones among them, against exact integer sums
    # sum_{j <= c_<} (R_i - R_(j)) C(j-1, k-2).
    rewards = np.random.default_rng(k).integers(-3000, 3000, LARGE_N)
    order = np.argsort(rewards, kind="stable")
    ascending = rewards[order].tolist()
    denominator = LARGE_N * comb(LARGE_N - 1, k - 1)
    weights = response_weights(rewards.astype(np.float64), objective, k)[order].tolist()
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
    # A table of all pairs would take 128 GiB.
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


@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 4)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_prompts_do_not_affect_each_other(objective: str, leading: tuple[int, ...]) -> None:
    n = 6
    rewards = groups_for(objective, (*leading, n))
    for k in allowed_ks(objective, n):
        together = response_weights(rewards, objective, k)
        assert together.shape == rewards.shape
        for index in np.ndindex(leading):
            separate = response_weights(rewards[index], objective, k)
            assert (together[index] == separate).all()


# --- Kinds of array --------------------------------------------------------------------------

DTYPES = ["float16", "float32", "float64", "bfloat16"]  # numpy lacks the last one
SHAPES = [(6,), (2, 3, 6), (2, 0, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_have_the_rewards_dtype_and_are_computed_in_double_and_rounded_once(
    objective: str, shape: tuple[int, ...]
) -> None:
    rewards = groups_for(objective, shape)
    exact_weights = response_weights(rewards, objective, k=2)
    for name in DTYPES:
        dtype = getattr(torch, name)
        weights = response_weights(torch.from_numpy(rewards).to(dtype), objective, k=2)
        assert isinstance(weights, torch.Tensor)
        assert (weights.dtype, weights.shape) == (dtype, shape)
        assert torch.equal(weights, torch.from_numpy(exact_weights).to(dtype))
        if name != "bfloat16":
            array = response_weights(rewards.astype(name), objective, k=2)
            assert isinstance(array, np.ndarray)
            assert (array.dtype, array.shape) == (name, shape)
            assert (array == exact_weights.astype(name)).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rewards_are_not_changed_and_share_no_memory_with_weights(objective: str) -> None:
    rewards = groups_for(objective, (3, 4))
    for k in allowed_ks(objective, 4):
        array, tensor = rewards.copy(), torch.tensor(rewards)
        response_weights(array, objective, k)[:] = 99.0
        response_weights(tensor, objective, k)[:] = 99.0
        assert (array == rewards).all()
        assert (tensor.numpy() == rewards).all()


@pytest.mark.parametrize(("precision", "copies"), [(torch.float64, 0), (torch.float32, 2)])
def test_a_tensor_is_copied_only_to_change_its_dtype(precision: torch.dtype, copies: int) -> None:
    class Copies(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function in (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default):
                self.count += 1
            return function(*args, **(kwargs or {}))

    rewards = torch.tensor([[0.5, 2.0, 0.5, 1.0]], dtype=precision)
    with Copies() as mode:
        weights = response_weights(rewards, "rspo_max_at_k", 2)
    assert mode.count == copies
    assert weights.dtype == precision


def test_weights_are_constants_to_autograd() -> None:
    rewards = torch.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    for objective in OBJECTIVES:
        assert not response_weights(rewards, objective, k=2).requires_grad


CORRECT = [[False, True, False, True], [False, False, True, False]]


@pytest.mark.parametrize(
    "given_rewards",
    [
        CORRECT,
        tuple(map(tuple, CORRECT)),
        np.array(CORRECT, float).tolist(),
        np.array(CORRECT, int).tolist(),
        list(np.array(CORRECT)),
        np.array(CORRECT),
        np.array(CORRECT, "int32"),
        np.array(CORRECT, "uint8"),
    ],
    ids=["bools", "tuples", "floats", "ints", "rows", "bool", "int32", "uint8"],
)
def test_lists_bools_and_integers_are_the_same_rewards(given_rewards: Any) -> None:
    weights = response_weights(given_rewards, "rspo_max_at_k", k=2)
    assert isinstance(weights, np.ndarray)
    assert weights.dtype == np.float64
    assert (weights == response_weights(np.array(CORRECT, float), "rspo_max_at_k", k=2)).all()


def test_plug_ins_take_k_above_n() -> None:
    rewards = [Fraction(r) for r in (0, 1, 0, 1)]
    for objective in PLUG_INS:
        found = response_weights(as_float(rewards), objective, k=7)
        assert_equal_up_to_rounding(found, FORMULAS[objective](rewards, 7))


# --- Error messages -------------------------------------------------------------------------

ZEROS = np.zeros((3, 4))
BINARY = ("rspo_pass_at_k", "rspo_pass_at_k_plug_in")
ONE_OF_THREE = np.array([[0.0, 1.0, 1.0], [1.0, 0.5, 0.0]])
NOT_A_NUMBER = np.array([[0.0, 1, 0, 0], [1.0, 1, 0, 0], [1.0, np.nan, 0, 0]])


@pytest.mark.parametrize(
    ("rewards", "objective", "k", "message"),
    [
        *((ONE_OF_THREE, name, 2, "0 or 1.*0.5.*(1, 1)") for name in BINARY),
        *((NOT_A_NUMBER, objective, 2, "finite.*nan.*(2, 1)") for objective in OBJECTIVES),
        (NOT_A_NUMBER - np.inf, "grpo", 2, "finite.*-inf.*(0, 0)"),
        *((ZEROS, objective, 5, "k = 5.*n = 4.*1 <= k <= n") for objective in RSPO_UNBIASED),
        *((ZEROS, "hitchhiking", k, f"k = {k}.*n = 4.*k divides n") for k in (3, 8)),
        *((ZEROS, name, 4, "k = 4.*n = 4.*1 <= k < n") for name in ("pkpo_s_loo", "maxpo")),
        (ZEROS, "rspo_max_at_k", 0, "k = 0.*1 <= k <= n"),
        *((ZEROS, "grpo", k, f"{k!r}.*integer") for k in (2.0, "2", True)),
        (ZEROS, "rspo_max_at_k_plug_in", None, "rspo_max_at_k_plug_in needs a k"),
        *((np.zeros(shape), "policy_gradient", 1, f"{shape}.*n >= 1") for shape in ((), (3, 0))),
        (np.zeros((3, 1)), "grpo", 2, "n = 1.*n >= 2"),
        ([[0, 1], [0]], "rspo_pass_at_k", 2, "different lengths"),
        (ZEROS, "rspo_pass@k", 2, "'rspo_pass@k'.*" + ".*".join(OBJECTIVES)),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_allowed(
    rewards: Any, objective: str, k: Any, message: str
) -> None:
    """The parts of the message may come in any order."""
    pattern = "".join(f"(?=.*{re.escape(part)})" for part in message.split(".*"))
    for kind in (list,) if isinstance(rewards, list) else (np.asarray, torch.tensor):
        with pytest.raises(ValueError, match=pattern):
            response_weights(kind(rewards), objective, k)


@pytest.mark.parametrize(
    "rewards",
    [1.0, None, "01", {0: 1}, ["0", "1"], [0, None], [1j, 0], np.ma.array([1.0, 0], mask=[0, 1])],
)
def test_rewards_that_are_no_array_of_real_numbers_are_refused(rewards: Any) -> None:
    with pytest.raises(TypeError, match=r"real|list|masked"):
        response_weights(rewards, "rspo_pass_at_k", 2)


@pytest.mark.parametrize("objective", [np.zeros(2), lambda rewards, k: rewards, None])
def test_an_objective_is_the_name_of_one(objective: Any) -> None:
    with pytest.raises(TypeError, match="objective must be a name in OBJECTIVES, got "):
        response_weights([0.0, 1.0], objective, 2)


# --- An objective of one's own that returns something else -----------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda rewards, k: rewards.sum(-1), "must return an array of shape (2, 4), got (2,)"),
        (lambda rewards, k: rewards.tolist(), "an array of shape (2, 4), got list"),
        (
            lambda rewards, k: np.where(rewards > 0, np.nan, 0.0),
            "must return finite weights, got nan at index (1, 2)",
        ),
    ],
)
def test_what_an_own_objective_returns_is_checked(
    function: Callable[[Any, int], Any], expected: str
) -> None:
    rewards = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    with restored():
        register(Objective("of_my_own", function, KRule.NONE))
        with pytest.raises(ValueError, match=f"of_my_own.*{re.escape(expected)}"):
            response_weights(rewards, "of_my_own")


def test_an_own_objective_cannot_change_the_callers_rewards() -> None:
    def in_place(rewards: Any, k: int) -> Any:
        rewards -= 1
        return rewards

    for rewards in (np.array([1.0, 0.0]), torch.tensor([1.0, 0.0], dtype=torch.float64)):
        with restored():
            register(Objective("in_place", in_place, KRule.NONE))
            assert response_weights(rewards, "in_place").tolist() == [0.0, -1.0]
        assert rewards.tolist() == [1.0, 0.0]
