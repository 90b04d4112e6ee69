"""Advantages of tokens, as verl needs them, from the weights of responses.

The advantage of every token of response i is n * w_i. The weight w_i contains the factor 1/n, and
verl's `seq-mean-token-sum-norm` takes the mean over all responses, which is another 1/n, and
divides by the constant `loss_scale_factor`, T. With P prompts x, the loss of a mini-batch is

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)

This module imports nothing of verl: `verl_estimators.py` registers these functions in any verl, and
the engine in rspo/training/verl/ calls them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rspo.core.errors import InputError, errors_of
from rspo.core.seeds import generator_of
from rspo.objectives import OBJECTIVES, response_weights

K_KEY = "rspo_k"  # in verl's section `algorithm`, beside adv_estimator


def estimator_name(objective: str) -> str:
    """Name of an objective in verl. The prefix avoids verl's own names, such as `grpo`."""
    return objective if objective.startswith("rspo_") else f"rspo_{objective}"


def response_advantages(rewards: Tensor, objective: str, k: int) -> Tensor:
    """Return n times the weights of the responses; rewards and advantages are (prompts, n).

    Raises: InputError if the objective refuses the rewards or the k.
    """
    with errors_of(f"algorithm.adv_estimator={estimator_name(objective)}"):
        return rewards.shape[-1] * response_weights(rewards, objective, k)


def token_advantages(
    objective: str,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: NDArray[np.object_],
    config: Mapping[str, Any],
) -> tuple[Tensor, Tensor]:
    """Advantages of tokens, as verl calls its estimators.

    Args:
        token_level_rewards: (B, T); a response's reward is their sum.
        response_mask: (B, T), 1 on the tokens of the response. verl pads a batch with rows whose
            mask is all 0: they belong to no prompt, and their advantage is 0.
        index: (B,) id of each row's prompt.
        config: verl's section `algorithm`, with k under `rspo_k`.

    Returns: (B, T) advantages, 0 outside the mask; and the targets of a critic ("returns"), which
        verl requires. There is no critic, so the advantages stand in their place.
    """
    k = k_of(config, objective)
    # (B,) False for the rows that pad the batch.
    real = response_mask.bool().any(dim=-1)
    rows = _rows_of_groups(index, real)  # (prompts, n)
    if OBJECTIVES[objective].ordered:
        rows = _in_random_order(rows, index)
    rewards = token_level_rewards.double().sum(dim=-1)
    advantages = torch.zeros_like(rewards)
    advantages[rows] = response_advantages(rewards[rows], objective, k)
    tokens = advantages.to(token_level_rewards.dtype)[:, None] * response_mask
    return tokens, tokens


def k_of(config: Mapping[str, Any], objective: str) -> int:
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
