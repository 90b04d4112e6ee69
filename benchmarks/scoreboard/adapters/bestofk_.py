"""principled-bestofk: the weights of `MaxKLoss`, whose loss is a sum over the responses."""

from collections.abc import Callable
from typing import Any

import torch
from src.algorithms.losses import MaxKLoss


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    def computed(rewards: Any, k: int) -> Any:
        groups = torch.tensor(rewards.reshape(-1, rewards.shape[-1]), dtype=torch.float32)
        found = MaxKLoss(k=k, **settings)(groups, torch.zeros_like(groups)).weights
        return rewards.shape[-1] * found.numpy().reshape(rewards.shape)

    return computed
