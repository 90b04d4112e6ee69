"""slime: the rewards that the rollout manager hands on, which GRPO uses as advantages."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from slime.ray.rollout import RolloutManager


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    # The class as it was before `ray.remote` made an actor of it.
    manager = RolloutManager.__ray_metadata__.modified_class

    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        arguments = SimpleNamespace(
            advantage_estimator=function,
            n_samples_per_prompt=n,
            rollout_batch_size=rewards.size // n,
            **settings,
        )
        of_manager = SimpleNamespace(args=arguments, custom_reward_post_process_func=None)
        samples = []
        for reward in rewards.ravel().tolist():
            samples.append(SimpleNamespace(get_reward_value=lambda _, reward=reward: reward))
        _, found = manager._post_process_rewards(of_manager, samples)
        return np.array(found, dtype=np.float32).reshape(rewards.shape)

    return computed
