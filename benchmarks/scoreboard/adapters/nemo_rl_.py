"""NeMo-RL: its advantage estimators."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from nemo_rl.algorithms import advantage_estimator


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    loss = SimpleNamespace(
        use_kl_in_reward=False, reference_policy_kl_penalty=0.0, reference_policy_kl_type="k3"
    )
    estimator = getattr(advantage_estimator, function)(SimpleNamespace(**settings), loss)

    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        prompts = torch.arange(rewards.size // n).repeat_interleave(n)
        found = estimator.compute_advantage(
            prompt_ids=prompts[:, None],
            rewards=torch.tensor(rewards.ravel(), dtype=torch.float32),
            mask=torch.ones(rewards.size, 1),
        )
        return found.numpy().reshape(rewards.shape)

    return computed
