"""The objectives in any installation of verl: two config keys select one."""

from typing import Any

import numpy as np
import pytest
import torch

from rspo.adapters.verl_advantages import estimator_name, token_advantages
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o != "hitchhiking"])
def test_advantages_are_n_times_the_weights(objective: str) -> None:
    rewards = torch.tensor([[1.0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])
    mask = torch.ones(12, 2)
    token_rewards = torch.stack((torch.zeros(12), rewards.flatten()), dim=1)
    index = np.repeat(np.array(["a", "b", "c"], dtype=object), 4)
    values, returns = token_advantages(objective, token_rewards, mask, index, {"rspo_k": 3})
    weights = response_weights(rewards.double(), objective, 3)
    torch.testing.assert_close(values[:, 0].double(), 4 * weights.flatten())
    assert torch.equal(values[:, 0], values[:, 1])
    assert torch.equal(values, returns)


def test_a_split_into_groups_does_not_depend_on_the_order_of_the_batch() -> None:
    """In sorted order, both correct responses would be in one group."""
    uids = [f"prompt-{number}" for number in range(300)]
    index = np.repeat(np.array(uids, dtype=object), 4)
    rewards = torch.tensor([1.0, 1, 0, 0]).repeat(300)[:, None]
    values, _ = token_advantages("hitchhiking", rewards, torch.ones(1200, 1), index, {"rspo_k": 2})
    # Pass@2 of this prompt is 1 - C(2,2)/C(4,2) = 5/6; in sorted order the estimate is 1/2.
    estimate = values.view(300, 4).mean(dim=1) / 2
    assert float(estimate.mean()) == pytest.approx(5 / 6, abs=0.04)


def test_padding_of_the_batch_belongs_to_no_prompt() -> None:
    index = np.array(["a", "a", "a"], dtype=object)
    mask = torch.tensor([[1.0, 1], [1, 0], [0, 0]])
    rewards = torch.tensor([[0.0, 1], [0, 0], [0, 0]])
    values, _ = token_advantages("rspo_pass_at_k", rewards, mask, index, {"rspo_k": 2})
    assert values.tolist() == [[2, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("objective", "config", "rewards", "uids", "message"),
    [
        ("rspo_pass_at_k", {}, [1, 0], "aa", r"needs its k: set \+algorithm\.rspo_k"),
        ("hitchhiking", {}, [1, 0], "aa", "algorithm.adv_estimator=rspo_hitchhiking needs its k"),
        ("rspo_pass_at_k", {"rspo_k": 4}, [1, 0], "aa", "cannot use k = 4 with n = 2"),
        ("rspo_pass_at_k", {"rspo_k": "2"}, [1, 0], "aa", "k must be an integer, got '2'"),
        ("rspo_pass_at_k", {"rspo_k": 2}, [0.5, 0], "aa", "must be 0 or 1, got 0.5"),
        ("hitchhiking", {"rspo_k": 2}, [1, 0, 1], "aaa", "k divides n"),
        ("rspo_pass_at_k", {"rspo_k": 2}, [1, 0, 1], "aab", "have 1 and 2 responses"),
    ],
)
def test_bad_input_is_one_clear_error(
    objective: str,
    config: dict[str, Any],
    rewards: list[float],
    uids: str,
    message: str,
) -> None:
    token_rewards = torch.tensor(rewards, dtype=torch.float32)[:, None]
    index = np.array(list(uids), dtype=object)
    with pytest.raises(InputError, match=message) as error:
        token_advantages(objective, token_rewards, torch.ones(len(uids), 1), index, config)
    assert "\n" not in str(error.value)
    name = estimator_name(objective)
    assert name in str(error.value) or "responses; allowed" in str(error.value)


def test_the_names_in_verl_have_one_prefix() -> None:
    assert estimator_name("grpo") == "rspo_grpo"
    assert estimator_name("rspo_pass_at_k") == "rspo_pass_at_k"
