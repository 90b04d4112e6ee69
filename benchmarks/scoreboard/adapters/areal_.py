"""AReaL: the normalization of rewards, which are the advantages of its GRPO without values."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from areal.utils.data import Normalization


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    def computed(rewards: Any, k: int) -> Any:
        config = SimpleNamespace(group_size=rewards.shape[-1], **settings)
        found = Normalization(config)(torch.tensor(rewards.ravel(), dtype=torch.float32))
        return found.numpy().reshape(rewards.shape)

    return computed
