"""The objectives in SkyRL: advantage estimators whose advantages are n times the weights.

The weight w_i contains the factor 1/n, and SkyRL's reduction `seq_mean_token_sum_norm` divides by
the number of responses, which is another 1/n, and by the constant T = max_seq_len:

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rspo.adapters import versions
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights
from rspo.objectives.registry import unknown_objective

versions.require("skyrl", "0.3.0")

from skyrl.backends.skyrl_train.utils import ppo_utils  # noqa: E402, as in rspo.adapters.trl

# Settings of trainer.algorithm that change the loss or the advantages, with the one allowed value.
ALLOWED = {
    "loss_reduction": "seq_mean_token_sum_norm",
    "policy_loss_type": "regular",
    "advantage_batch_normalize": False,
    "use_kl_loss": False,
    "use_kl_in_reward": False,
    "use_entropy_loss": False,
    "zero_variance_filter": False,
}


def register(objective: str, k: int | None = None, name: str = "rspo") -> None:
    """Register an objective as an advantage estimator of SkyRL.

    Args:
        objective: a name in `OBJECTIVES`.
        k: of Pass@k or Max@k; objectives without k ignore it.
        name: for trainer.algorithm.advantage_estimator.

    Raises: InputError for an unknown objective. While training: for
        settings that change the loss, a k that the objective does not allow for the responses to a
        prompt, and rewards that it does not allow.
    """
    if objective not in OBJECTIVES:
        raise InputError(unknown_objective(objective))

    @ppo_utils.register_advantage_estimator(name)
    def estimator(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Sequence[str],
        config: Any,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        require_settings(config)
        rewards = token_level_rewards.sum(dim=-1)
        advantages = response_advantages(rewards, index, objective, k)[:, None] * response_mask
        return advantages, advantages


def response_advantages(
    rewards: Tensor, index: Sequence[str], objective: str, k: int | None
) -> Tensor:
    """n times the weights; 0 for the rows that SkyRL adds to fill a batch.

    Args:
        rewards: (responses,).
        index: the prompt of each response; those to one prompt need not be neighbours.

    Returns: (responses,).

    Raises: InputError naming the prompt whose k or rewards the objective does not allow.
    """
    prompts = np.asarray(index)
    padding = {f"pad{i}" for i in range(len(prompts))}
    advantages = rewards.new_zeros(rewards.shape)
    for prompt in dict.fromkeys(prompts.tolist()):
        if prompt in padding:
            continue
        rows = np.flatnonzero(prompts == prompt)
        try:
            advantages[rows] = len(rows) * response_weights(rewards[rows], objective, k)
        except ValueError as error:
            raise InputError(f"responses to prompt {prompt}: {error}") from None
    return advantages


def require_settings(config: Any) -> None:
    """Raises: InputError naming the first setting that another value is required of."""
    for name, allowed in ALLOWED.items():
        if getattr(config, name) != allowed:
            raise InputError(
                f"trainer.algorithm.{name}={getattr(config, name)!r}; allowed: {allowed!r}"
            )
