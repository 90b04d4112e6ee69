"""rLLM: estimators of its registry."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from rllm.trainer.algorithms.advantage import get_rllm_adv_estimator
from rllm.trainer.algorithms.config import rLLMAdvantageEstimator


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    estimator = get_rllm_adv_estimator(rLLMAdvantageEstimator(function))
    config = SimpleNamespace(**settings)

    def computed(rewards: Any, k: int) -> Any:
        groups = list(rewards.reshape(-1, rewards.shape[-1]))
        found, _ = estimator(rewards=groups, algorithm_config=config)
        return np.array(found).reshape(rewards.shape)

    return computed
