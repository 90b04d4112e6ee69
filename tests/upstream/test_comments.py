"""docs/upstream: the code in the comments on other projects' pull requests."""

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from math import comb, isnan, sqrt
from statistics import mean
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support import ROOT, exact

UPSTREAM = ROOT / "docs" / "upstream"


def code(page: str, block: int, monkeypatch: pytest.MonkeyPatch, **modules: Any) -> dict[str, Any]:
    """The names that a block of code of a page defines, with other modules in place of packages."""
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    blocks = re.findall(r"```python\n(.*?)```", (UPSTREAM / page).read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(blocks[block], page, "exec"), names)
    return names


# --- verl#7240 ----------------------------------------------------------------------------------

METRIC_UTILS = "verl__trainer__ppo__metric_utils"


def right(n: int, c: int, k: int) -> float:
    return 1 - comb(n - c, k) / comb(n, k)


def with_replacement(n: int, c: int, k: int) -> float:
    """What verl's `best@k` estimates."""
    return 1 - (1 - c / n) ** k


def run_tests(monkeypatch: pytest.MonkeyPatch, pass_at_k: Callable[..., float]) -> None:
    names = code("verl_pass_at_k.md", 0, monkeypatch, **{METRIC_UTILS: {"pass_at_k": pass_at_k}})
    for n in range(1, 9):
        names["test_pass_at_k_is_the_share_of_subsets_with_a_correct_response"](n)
    names["test_pass_at_k_of_many_responses_is_finite"]()


def test_the_test_for_verl_passes_and_finds_draws_with_replacement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_tests(monkeypatch, right)
    with pytest.raises(AssertionError):
        run_tests(monkeypatch, with_replacement)


def of_disjoint_subsets(n: int, c: int, k: int) -> float:
    """The variance by definition: the squared mean less the mean over disjoint pairs of subsets."""
    best = {subset: min(subset) < c for subset in combinations(range(n), k)}
    products = []
    for one, other in product(best, repeat=2):
        if not set(one) & set(other):
            products.append(best[one] * best[other])
    return mean(best.values()) ** 2 - mean(products)


def test_the_error_for_verl_is_that_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    with_error = code("verl_pass_at_k.md", 1, monkeypatch)["pass_at_k_with_error"]
    for k in (1, 2, 3):
        counts = [(6, c) for c in range(7)] + [(7, 3)]
        value, error = with_error(counts, k, right)
        variances = [of_disjoint_subsets(n, c, k) for n, c in counts]
        assert value == pytest.approx(mean(right(n, c, k) for n, c in counts))
        assert error == pytest.approx(sqrt(sum(variances)) / len(counts), abs=1e-9)
    assert isnan(with_error([(4, 1)], 3, right)[1])


@pytest.mark.ci
def test_the_numbers_of_the_comment_are_those_of_verl() -> None:
    from verl.trainer.ppo import metric_utils

    assert not hasattr(metric_utils, "pass_at_k")
    found = metric_utils.process_validation_metrics(
        ["set"] * 4, ["prompt"] * 4, {"score": [1.0, 0.0, 0.0, 0.0]}
    )
    assert found["set"]["score"]["best@4/mean"] == pytest.approx(1 - 0.75**4, abs=0.05)
    assert round(1 - 0.75**4, 3) == 0.684


# --- TRL#7298 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_the_hook_of_the_comment_on_trl_is_unbiased_for_max_at_k(
    training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "trl/transform_advantages.md"
    names = code(page, 0, monkeypatch, trl={"GRPOTrainer": object})
    trainer = names["BestOfKTrainer"]()
    trainer.num_generations = 6
    trainer.num_generations_eval = 4
    trainer.model = SimpleNamespace(training=training)
    n = 6 if training else 4
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randint(-2, 3, (12, n), generator=generator).double() / 2
    centered = rewards - rewards.mean(dim=-1, keepdim=True)
    for k in range(2, n + 1):
        trainer.k = k
        found = trainer._transform_advantages(centered.view(-1)).view(-1, n)
        for row, group in zip(found.tolist(), rewards.tolist(), strict=True):
            weights = exact.marginal_contributions([Fraction(reward) for reward in group], k)
            assert row == pytest.approx([float(n * weight) for weight in weights], abs=1e-9)
