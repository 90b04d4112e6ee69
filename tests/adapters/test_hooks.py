"""The functions of docs/trainers.md for rLLM and slime, called as these trainers document it.

Neither is in the package index. The calls are those of rLLM at commit 3cbee2ad
(rllm/trainer/algorithms/advantage.py) and of slime at 624b824a (slime/utils/arguments.py and
slime/backends/megatron_utils/loss.py).
"""

import sys
from argparse import Namespace
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import ROOT
from tests.support.pages import code_of

PAGE = ROOT / "docs" / "trainers.md"
# Of 6 responses, 2 are right, then 1. For k = 4 the weights are (4/6) C(4,3)/C(5,3) = 4/15 and
# (4/6) C(5,3)/C(5,3) = 2/3; an advantage is 6 times that.
REWARDS = [[1.0, 0, 0, 1, 0, 0], [0, 1.0, 0, 0, 0, 0]]
ADVANTAGES = [[1.6, 0, 0, 1.6, 0, 0], [0, 4.0, 0, 0, 0, 0]]


def test_the_estimator_for_rllm_is_registered_and_returns_an_array_for_each_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry: dict[str, Callable[..., Any]] = {}

    def register_adv_estimator(name: str) -> Callable[[Any], Any]:
        def decorator(function: Any) -> Any:
            registry[name] = function
            return function

        return decorator

    package = ModuleType("rllm")
    package.register_adv_estimator = register_adv_estimator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rllm", package)
    exec(code_of(PAGE, "rLLM"), {})
    groups = [np.array(REWARDS[0]), np.array(REWARDS[1][:5])]
    advantages, returns = registry["rspo"](
        rewards=groups, algorithm_config=None, traj_groups=["first", "second"]
    )
    np.testing.assert_allclose(advantages[0], ADVANTAGES[0])
    np.testing.assert_allclose(advantages[1], [0, 4.0, 0, 0, 0])  # 5 (4/5) C(4,3)/C(4,3)
    assert len(returns) == 2


def test_the_function_for_slime_gives_each_rank_the_advantages_of_its_tokens() -> None:
    """Each rank has some of the responses, in any order, and the rewards of all."""
    names: dict[str, Any] = {}
    exec(code_of(PAGE, "slime"), names)
    rewards = REWARDS[0] + REWARDS[1]
    expected = ADVANTAGES[0] + ADVANTAGES[1]
    seen = []
    for partition in ([7, 0, 11, 3, 4, 1], [2, 5, 6, 8, 9, 10]):
        lengths = [1 + position % 3 for position in partition]
        data = {
            "partition": partition,
            "raw_reward": rewards,
            "rewards": [99.0] * len(partition),  # normalised by slime
            "response_lengths": lengths,
            "kl": [torch.zeros(length) for length in lengths],
        }
        assert names["advantages"](Namespace(n_samples_per_prompt=6), data) is None
        for position, length, tokens in zip(partition, lengths, data["advantages"], strict=True):
            torch.testing.assert_close(tokens, torch.full((length,), float(expected[position])))
            seen.append(position)
        assert data["returns"] is data["advantages"]
    assert sorted(seen) == list(range(12))


def test_other_rewards_than_0_and_1_are_an_error_in_slime() -> None:
    names: dict[str, Any] = {}
    exec(code_of(PAGE, "slime"), names)
    data = {"partition": [0], "raw_reward": [0.5] * 6, "kl": [torch.zeros(1)]}
    with pytest.raises(ValueError, match="must be 0 or 1"):
        names["advantages"](Namespace(n_samples_per_prompt=6), data)
