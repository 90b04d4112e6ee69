"""The objectives as advantage estimators of verl, for trainings with verl's own trainers.

verl 0.9 loads this module by itself, through the group of entry points `verl.plugins`. Older
versions load it with VERL_USE_EXTERNAL_MODULES=rspo.adapters.verl_estimators.

The advantage of every token of response i is n * w_i. The weight w_i contains the factor 1/n, and
verl's `seq-mean-token-sum-norm` takes the mean over all responses, which is another 1/n, and
divides by the constant `loss_scale_factor`, T. With P prompts x, the loss of a mini-batch is

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)

Any version of verl works that has `register_adv_est` in verl/trainer/ppo/core_algos.py, and calls
an estimator with the arguments of `token_advantages`. rspo/adapters/verl_check.py checks the first
call.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rspo.adapters import verl_check
from rspo.adapters.versions import LOGGER
from rspo.core.errors import InputError, errors_of
from rspo.core.seeds import generator_of
from rspo.objectives import OBJECTIVES, response_weights

K_KEY = "rspo_k"  # in verl's section `algorithm`, beside adv_estimator


def estimator_name(objective: str) -> str:
    """Name of an objective in verl. The prefix avoids verl's own names, such as `grpo`."""
    return objective if objective.startswith("rspo_") else f"rspo_{objective}"


def register_estimators() -> None:
    """Register every objective under its name.

    Raises: InputError if verl has no registry of estimators where its tested versions have it;
        ValueError if an installed package registers an objective under a name that is taken.
    """
    core_algos = verl_check.module_with("verl.trainer.ppo.core_algos", "register_adv_est")
    for objective in OBJECTIVES:
        # verl refuses a second function under a name, and each `partial` is another function.
        if estimator_name(objective) not in core_algos.ADV_ESTIMATOR_REGISTRY:
            estimator = partial(checked_advantages, objective)
            core_algos.register_adv_est(estimator_name(objective))(estimator)


def checked_advantages(objective: str, **given: Any) -> tuple[Tensor, Tensor]:
    """The estimator that verl calls: `token_advantages`, and a check at its first call.

    Raises: InputError if verl does not pass what `token_advantages` needs, or if a group with known
        rewards has other advantages than n times its weights.
    """
    verl_check.require_arguments(estimator_name(objective), given)
    config = given["config"]
    k = _k_of(config, objective)
    verl_check.check_once(objective, estimator_name(objective), k, config)
    return token_advantages(
        objective,
        given["token_level_rewards"],
        given["response_mask"],
        given["index"],
        config,
    )


def token_advantages(
    objective: str,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: NDArray[np.object_],
    config: Mapping[str, Any],
) -> tuple[Tensor, Tensor]:
    """Advantages of tokens.

    Args:
        token_level_rewards: (B, T); a response's reward is their sum.
        response_mask: (B, T), 1 on the tokens of the response. verl pads a batch with rows whose
            mask is all 0: they belong to no prompt, and their advantage is 0.
        index: (B,) id of each row's prompt.
        config: verl's section `algorithm`, with k under `rspo_k`.

    Returns: (B, T) advantages, 0 outside the mask; and the targets of a critic ("returns"), which
        verl requires. There is no critic, so the advantages stand in their place.
    """
    k = _k_of(config, objective)
    # (B,) False for the rows that pad the batch.
    real = response_mask.bool().any(dim=-1)
    rows = _rows_of_groups(index, real)  # (prompts, n)
    if OBJECTIVES[objective].ordered:
        rows = _in_random_order(rows, index)
    rewards = token_level_rewards.double().sum(dim=-1)
    advantages = torch.zeros_like(rewards)
    n = rows.shape[-1]
    with errors_of(f"algorithm.adv_estimator={estimator_name(objective)}"):
        advantages[rows] = n * response_weights(rewards[rows], objective, k)
    tokens = advantages.to(token_level_rewards.dtype)[:, None] * response_mask
    return tokens, tokens


def _k_of(config: Mapping[str, Any], objective: str) -> int:
    """The k of the config, or 1 for an objective without k.

    Raises: InputError if the objective requires k and the config has none.
    """
    if not OBJECTIVES[objective].has_k:
        return 1
    k = config.get(K_KEY)
    if k is None:
        raise InputError(
            f"algorithm.adv_estimator={estimator_name(objective)} needs its k: "
            f"set +algorithm.{K_KEY}=4, or another number"
        )
    return k  # response_weights checks it


def _rows_of_groups(index: NDArray[np.object_], real: Tensor) -> Tensor:
    """Rows of each prompt's responses, (prompts, n), in the order of the batch.

    Args:
        index: (B,) id of each row's prompt.
        real: (B,) whether a row is a response, and not padding of the batch.

    Raises: InputError if prompts have different numbers of responses.
    """
    groups: dict[Any, list[int]] = {}
    for row in real.nonzero()[:, 0].tolist():
        groups.setdefault(index[row], []).append(row)
    sizes = sorted({len(rows) for rows in groups.values()})
    if len(sizes) > 1:
        raise InputError(
            f"prompts of one batch have {' and '.join(map(str, sizes))} responses; "
            "allowed: the same number (actor_rollout_ref.rollout.n) for each"
        )
    return torch.tensor(list(groups.values()), dtype=torch.long)


def _in_random_order(rows: Tensor, index: NDArray[np.object_]) -> Tensor:
    """Shuffle the responses of each prompt; the seed is the prompt's id.

    An ordered objective splits the responses into groups in their order. verl sorts responses by
    length before it computes advantages, and a split that depends on the responses is biased.
    """
    shuffled = []
    for group in rows:
        generator = generator_of("split", str(index[group[0]]))
        shuffled.append(group[torch.randperm(len(group), generator=generator)])
    return torch.stack(shuffled)


try:
    register_estimators()
except (InputError, ValueError) as error:
    # verl logs the exceptions of entry points at level DEBUG only.
    LOGGER.error("no objective of rspo is available in verl: %s", error)
    raise
