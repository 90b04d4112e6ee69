"""SkyRL: estimators of its registry."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    estimator = AdvantageEstimatorRegistry.get(function)

    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        prompts = rewards.size // n
        found, _ = estimator(
            token_level_rewards=torch.tensor(rewards.reshape(-1, 1), dtype=torch.float32),
            response_mask=torch.ones(prompts * n, 1),
            index=np.repeat(np.arange(prompts), n),
            **settings,
        )
        return found.numpy().reshape(rewards.shape)

    return computed
