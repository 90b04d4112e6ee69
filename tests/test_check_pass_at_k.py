"""`check`: verdicts in every precision, named factors, and functions that fail."""

import re
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
import torch

from rspo.objectives import OBJECTIVES, assert_unbiased
from rspo.objectives.contract import check_weights
from rspo.objectives.diagnose import diagnose
from rspo.objectives.unbiased import check_pass_at_k
from rspo.passk import check, slope_of, tolerance_of

Function = Callable[[Any, int], Any]
WITHOUT_ORDER = [o.name for o in OBJECTIVES.values() if o.has_k and not o.ordered]


def in_numpy(dtype: str) -> Function:
    """RSPO's weights with every step in a dtype of NumPy, with a product of k-1 factors."""

    def weights(rewards: Any, k: int) -> Any:
        rewards = rewards.astype(dtype)
        n = rewards.shape[-1]
        wrong = n - rewards.sum(axis=-1, keepdims=True)
        share = np.ones_like(wrong)
        for i in range(k - 1):
            share = share * (np.maximum(wrong - i, 0) / np.asarray(n - 1 - i, dtype))
        return rewards * (np.asarray(k / n, dtype) * share)

    return weights


def in_torch(dtype: torch.dtype) -> Function:
    """The same in PyTorch; returns a tensor."""

    def weights(rewards: Any, k: int) -> Any:
        rewards = torch.tensor(rewards, dtype=dtype)
        n = rewards.shape[-1]
        wrong = n - rewards.sum(dim=-1, keepdim=True)
        share = torch.ones_like(wrong)
        for i in range(k - 1):
            share = share * (wrong - i).clamp(min=0) / (n - 1 - i)
        return rewards * (k / n) * share

    return weights


def with_log_factorials(rewards: Any, k: int) -> Any:
    """RSPO's weights in float32 by lgamma, as many implementations have them."""
    rewards = torch.tensor(rewards, dtype=torch.float32)
    n = rewards.shape[-1]
    wrong = n - rewards.sum(dim=-1, keepdim=True)
    log_share = torch.lgamma(wrong + 1) - torch.lgamma((wrong - k + 2).clamp(min=1))
    log_share += torch.lgamma(torch.tensor(n - k + 1.0)) - torch.lgamma(torch.tensor(float(n)))
    return rewards * (k / n) * torch.where(wrong >= k - 1, log_share.exp(), 0.0)


def off_by_one(rewards: Any, k: int) -> Any:
    """C(n-c, k-1) / C(n, k-1) in place of C(n-c, k-1) / C(n-1, k-1), in exact fractions."""
    n = rewards.shape[-1]
    of_count = [
        float(Fraction(k, n) * Fraction(comb(n - c, k - 1), comb(n, k - 1))) for c in range(n + 1)
    ]
    return rewards * np.array(of_count)[rewards.sum(axis=-1, keepdims=True).astype(int)]


def plug_in(rewards: Any, k: int) -> Any:
    """Biased for k >= 3 (and a factor n/(n-1) for k = 2)."""
    rewards = rewards.astype(np.float32)
    return rewards * (1 - rewards.mean(axis=-1, keepdims=True)) ** (k - 1)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(
    "function",
    [
        in_numpy("float64"),
        in_numpy("float32"),
        in_numpy("float16"),
        in_torch(torch.float64),
        in_torch(torch.float32),
        in_torch(torch.float16),
        in_torch(torch.bfloat16),
        with_log_factorials,
    ],
)
def test_unbiased_weights_pass_in_every_precision_and_with_every_k(
    function: Function, n: int
) -> None:
    for k in range(1, n + 1):
        assert check(function, k, n).lines[-1] == f"unbiased for Pass@{k} with n = {n}"
    answer = check_pass_at_k(function, n, n)
    assert answer
    ks = ", ".join(map(str, range(1, n + 1)))
    assert answer.lines[-1] == f"unbiased for Pass@{n} with n = {n}; unbiased with k = {ks}"


@pytest.mark.parametrize("function", [in_numpy("float32"), with_log_factorials])
@pytest.mark.parametrize(("k", "n"), [(7, 64), (32, 512), (512, 1024)])
def test_float32_passes_in_large_groups(function: Function, k: int, n: int) -> None:
    assert check(function, k, n)


def test_diagnose_and_check_say_the_same_of_float32() -> None:
    function = in_numpy("float32")
    assert diagnose(function, 4, 16).weights.unbiased_for == 4
    assert diagnose(function, 4, 8).centred.target == "maximizes 0.5 Pass@3 + 0.5 Pass@4"
    assert "k = 4   unbiased for Pass@4" in check_pass_at_k(function, 4, 16).lines


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_biased_weights_fail_in_every_precision(dtype: str) -> None:
    for k in (3, 4, 8):
        assert not check(lambda r, k: plug_in(r, k).astype(dtype), k, 8)

    def nearly(rewards: Any, k: int) -> Any:  # one of nine numbers is wrong by 0.01 %
        weights = in_numpy("float64")(rewards, k)
        weights *= 1 + 1e-4 * (rewards.sum(axis=-1, keepdims=True) == 2)
        return weights.astype(dtype)

    assert not check(nearly, 4, 8)


def test_a_bias_below_the_rounding_of_bfloat16_is_said_not_to_be_seen() -> None:
    answer = check(in_torch(torch.bfloat16), 4, 16)
    assert answer
    assert "computed in bfloat16: differences up to 0.03 of the largest weight" in str(answer)
    undecided = check(in_torch(torch.bfloat16), 4, 64)
    assert not undecided
    assert undecided.lines[-1].startswith("undecided for Pass@4 with n = 64 in bfloat16")


def test_float32_numbers_in_a_float64_array_are_told_what_to_return() -> None:
    answer = check(lambda r, k: in_numpy("float32")(r, k).astype(float), 4, 16)
    assert not answer
    assert "a function that computes in float32 must return it" in str(answer)


def test_the_verdict_names_a_factor_that_depends_on_k() -> None:
    assert check(off_by_one, 4, 8)
    answer = check_pass_at_k(off_by_one, 4, 8)
    assert answer
    assert answer.lines[-1] == (
        "unbiased for (n-k+1)/n = 0.625 times Pass@4 with n = 8; "
        "unbiased with k = 1, 2, 3, 4, 5, 6, 7, 8"
    )
    assert "k = 4   unbiased for 0.625 times Pass@4" in answer.lines
    depends = "the factor depends on k: each k has a learning rate of its own, also in a sum over k"
    assert depends in answer.lines
    for call in (check, check_pass_at_k):
        assert not call(off_by_one, 4, 8, factor=1)
        assert call(off_by_one, 4, 8, factor=0.625)
        assert call(off_by_one, 1, 8, factor=1)
    with pytest.raises(AssertionError, match=r"0.625 times Pass@4 .*, not for 1 times Pass@4"):
        assert_unbiased(off_by_one, 4, 8, factor=1)
    with pytest.raises(AssertionError, match="not for 1 times"):
        assert_unbiased(lambda r, k: off_by_one(r, k).astype(np.float32), 4, 8, factor=1)


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (lambda k, n: n, "n = 8 times"),
        (lambda k, n: 1 / k, "1/k = 0.25 times"),
        (lambda k, n: (n - k + 1) / k, "(n-k+1)/k = 1.25 times"),
        (lambda k, n: 3.7, "for 3.7 times"),
    ],
)
def test_common_factors_have_a_name(factor: Callable[[int, int], float], name: str) -> None:
    answer = check_pass_at_k(lambda r, k: factor(k, 8) * in_numpy("float64")(r, k), 4, 8)
    assert f"{name} Pass@4" in answer.lines[-1]
    assert ("depends on k" in str(answer)) == ("k" in name)


@pytest.mark.parametrize(
    ("k", "factor", "named"),
    [
        (4, 0.5, "k/n or (n-k)/n = 0.5 times Pass@4"),
        (4, 0.625, "(n-k+1)/n = 0.625 times Pass@4"),
        (1, 8.0, "n or (n-k+1) or n/k or (n-k+1)/k = 8 times Pass@1"),
        (1, 7.0, "(n-k) or (n-k)/k = 7 times Pass@1"),
        (3, 0.3, "unbiased for 0.3 times Pass@3"),
        (3, 1.0, "unbiased for Pass@3"),
    ],
)
def test_with_one_k_the_verdict_has_every_name_that_fits(k: int, factor: float, named: str) -> None:
    answer = check(lambda r, k: factor * in_numpy("float64")(r, k), k, 8)
    assert answer.passed
    assert f"{named} with n = 8" in answer.lines[-1]


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-9),
        (torch.float32, 1e-5),
        (torch.float16, 0.004),
        (torch.bfloat16, 0.03),
    ],
)
@pytest.mark.parametrize("n", [4, 16, 48])
def test_differences_up_to_the_documented_tolerance_are_allowed(
    dtype: torch.dtype, tolerance: float, n: int
) -> None:
    """Of the largest weight, and in proportion to n above 16. The largest weight here is 1/2."""
    tolerance *= max(1, n / 16)

    def differing(share: float) -> Function:
        """Weights R/2 for Pass@1, but where half of the responses are correct."""

        def weights(rewards: Any, k: int) -> Any:
            half = rewards.sum(axis=-1, keepdims=True) == n // 2
            return torch.tensor(rewards * 0.5 * (1 - share * half)).to(dtype)

        return weights

    assert tolerance_of(str(dtype).removeprefix("torch."), n) == tolerance
    assert slope_of(differing(0.7 * tolerance), 1, n).fits()[0] == 1
    assert 1 not in slope_of(differing(1.5 * tolerance), 1, n).fits()
    assert 1 not in slope_of(lambda r, k: -differing(0)(r, k), 1, n).fits()


def between_correct_ones(rewards: Any, k: int) -> Any:
    return rewards * (np.roll(rewards, 1, axis=-1) + np.roll(rewards, -1, axis=-1))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda r, k: r * (np.arange(8) % 2), "the order of the responses"),
        (lambda r, k: r * abs(np.arange(8) - 3.5), "the order of the responses"),
        (lambda r, k: r * np.roll(r, 1, axis=-1), "the order of the responses"),
        (between_correct_ones, "the order of the responses"),
        (lambda r, k: r * (1 + (r.ndim == 1)), "the other groups"),
        (lambda r, k: r * (1 + (len(r) == 1)), "the other groups"),
        (lambda r, k: r - (r - r.mean()) / 100, "the other groups"),
        (lambda r, k: r * (1 + r.all()), "the other groups"),
        (lambda r, k: r + (r == 0).all(), "the other groups"),
    ],
)
def test_weights_that_depend_on_other_things_than_the_group_are_refused(
    function: Function, what: str
) -> None:
    for call in (check, check_pass_at_k, check_weights):
        with pytest.raises(ValueError, match=f"must not depend on {what}, got .* in place of"):
            call(function, 2, 8)


def test_sums_in_another_order_are_no_dependence() -> None:
    def noisy(rewards: Any, k: int) -> Any:
        noise = np.random.default_rng(rewards.size).normal(size=rewards.shape)
        return (in_numpy("float64")(rewards, k) + 1e-7 * noise).astype(np.float32)

    assert check(noisy, 4, 8)


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_an_objective_gets_the_same_answer_in_float32(name: str) -> None:
    """Those of the package are computed in float64; a trainer has them in float32."""
    function = OBJECTIVES[name].function
    for k in (1, 2, 4, 7):
        single = check_pass_at_k(lambda r, k: function(r, k).astype(np.float32), k, 8)
        assert single.passed == check_pass_at_k(name, k, 8).passed
        assert single.lines[-1] == check_pass_at_k(function, k, 8).lines[-1]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda r, k: r.reshape(8), r"<lambda> failed for rewards of shape (9, 8), dtype float64"),
        (lambda r, k: 1 / 0, "and k = 2: ZeroDivisionError: division by zero"),
        (lambda r, k: r.astype(complex), "must return real numbers, got dtype complex128; allowed"),
        (lambda r, k: torch.tensor(r).sum(), "must return an array of shape (9, 8), got ()"),
        (lambda r, k: torch.tensor(r) / 0, "must return finite weights, got nan at index (0, 0)"),
    ],
)
def test_a_function_that_fails_is_one_line_with_the_shape_of_its_input(
    function: Function, message: str
) -> None:
    for call in (check, check_pass_at_k, assert_unbiased, diagnose):
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            call(function, 2, 8)
        assert "\n" not in str(error.value)


def test_a_k_that_fails_does_not_hide_the_others() -> None:
    def below_n(rewards: Any, k: int) -> Any:
        if k == rewards.shape[-1]:
            raise ValueError("k must be below n")
        return in_numpy("float32")(rewards, k)

    assert check(below_n, 3, 4)
    answer = check_pass_at_k(below_n, 3, 4)
    assert answer
    assert "k = 4   refused: below_n failed for rewards of shape (5, 4)" in str(answer)
    for call in (check, check_pass_at_k):
        with pytest.raises(ValueError, match="k must be below n"):
            call(below_n, 4, 4)


@pytest.mark.parametrize(("k", "n"), [(0, 4), (2, 4.0), (True, 4)])
def test_k_and_n_are_integers_of_at_least_1(k: Any, n: Any) -> None:
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
        check(in_numpy("float64"), k, n)
