"""Drop responses of weight 0 from a mini-batch, which saves their forward and backward pass.

docs/verl.md says why the update stays the same.
"""

from typing import Any

from omegaconf import DictConfig
from torch import Tensor


def kept_rows(advantages: Tensor, lengths: Tensor, ranks: int) -> list[int]:
    """Rows of a mini-batch to update on, the same number for every rank and at least one.

    If the number of responses with non-zero weight is not a multiple of the ranks, the shortest
    responses of weight 0 fill up.

    Args:
        advantages: (B,) of the mini-batch's responses, a multiple of the ranks (by the config).
        lengths: (B,) in tokens.
        ranks: number of data-parallel ranks.
    """
    kept: list[int] = advantages.nonzero()[:, 0].tolist()
    missing = -len(kept) % ranks if kept else ranks
    zero = (advantages == 0).nonzero()[:, 0]
    shortest = zero[lengths[zero].argsort(stable=True)]
    return sorted(kept + shortest[:missing].tolist())


def update_settings(actor_rollout_ref: DictConfig, responses: int, kept: int) -> dict[str, Any]:
    """Settings for verl's `update_actor`: one update on the remaining rows of a mini-batch.

    Args:
        responses: number in the mini-batch before dropping, which divides the loss.
        kept: number of remaining rows.
    """
    return {
        "global_batch_size": responses,
        "mini_batch_size": kept,
        "epochs": 1,
        "seed": actor_rollout_ref.actor.data_loader_seed,
        "dataloader_kwargs": {"shuffle": False},
        "temperature": actor_rollout_ref.rollout.temperature,
        "calculate_entropy": actor_rollout_ref.actor.entropy_coeff != 0,
        "distillation_use_topk": False,
        "distillation_only": False,
    }
