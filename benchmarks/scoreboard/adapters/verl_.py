"""verl: estimators of its registry, as `compute_advantage` of its trainer calls them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import get_adv_estimator_fn


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    estimator = get_adv_estimator_fn(function)
    config = OmegaConf.create(settings)

    def computed(rewards: Any, k: int) -> Any:
        """A response is one token, which has the whole reward."""
        n = rewards.shape[-1]
        prompts = rewards.size // n
        keywords: dict[str, Any] = {}
        # The trainer gives this setting to GRPO as a keyword, too.
        if function == "grpo":
            keywords["norm_adv_by_std_in_grpo"] = settings["norm_adv_by_std_in_grpo"]
        found, _ = estimator(
            token_level_rewards=torch.tensor(rewards.reshape(-1, 1), dtype=torch.float32),
            response_mask=torch.ones(prompts * n, 1),
            index=np.repeat(np.arange(prompts), n),
            config=config,
            **keywords,
        )
        return found.numpy().reshape(rewards.shape)

    return computed
