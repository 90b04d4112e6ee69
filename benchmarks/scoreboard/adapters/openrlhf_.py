"""OpenRLHF: the advantages of its experience maker."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker


def arguments_of(function: str, n: int) -> SimpleNamespace:
    """The settings of a training without length penalties and KL."""
    advantage = SimpleNamespace(estimator=function, gamma=1.0, lambd=1.0, no_std_norm=True)
    reward = SimpleNamespace(
        clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None
    )
    return SimpleNamespace(
        algo=SimpleNamespace(advantage=advantage),
        reward=reward,
        rollout=SimpleNamespace(n_samples_per_prompt=n),
    )


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    def computed(rewards: Any, k: int) -> Any:
        """A response is one token."""
        count = rewards.size
        maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
        maker.strategy = SimpleNamespace(args=arguments_of(function, rewards.shape[-1]))
        maker.advantage_estimator = function
        maker.kl_ctl = SimpleNamespace(value=0.0)
        experience = SimpleNamespace(
            index=list(range(count)),
            rewards=torch.tensor(rewards.ravel(), dtype=torch.float32),
            kl=torch.zeros(count, 1),
            action_mask=torch.ones(count, 1, dtype=torch.bool),
            info={},
        )
        maker.compute_advantages_and_returns([experience])
        return experience.advantages.numpy().reshape(rewards.shape)

    return computed
