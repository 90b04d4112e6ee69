"""OrderGrad: the advantages of its transform for a preset statistic."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ordergrad.numpy_backend import OrderStatTransform


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        transform = OrderStatTransform.precompute_lstat(n, k, function)
        groups = rewards.reshape(-1, n)
        found = [transform.lstat_advantage(group) for group in groups]
        return np.array(found).reshape(rewards.shape)

    return computed
