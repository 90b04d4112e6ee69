"""Which responses of a mini-batch cost an update: those with a weight.

Responses of weight 0 add nothing to the loss, so leaving them out saves their forward and
backward pass. It changes nothing, because

- mini-batches are formed before dropping, so no response moves into another update,
- the loss is divided by the responses that there were (verl's `global_batch_size`),
- a mini-batch in which nothing is left still makes its update, by Adam's momentum.

The second holds for the mean over responses. `token-mean` divides by the tokens that verl's actor
is given, so with it nothing may be dropped.
"""

from typing import Any

from omegaconf import DictConfig
from torch import Tensor

from rspo.core.errors import InputError


def kept_rows(advantages: Tensor, lengths: Tensor, ranks: int, aggregation: str) -> list[int]:
    """Rows of a mini-batch to update on, as many for every rank.

    Where those with a weight cannot be shared out equally, the shortest without one fill up; every
    rank gets at least one row.

    Args:
        advantages: (B,) of the mini-batch's responses.
        lengths: (B,) in tokens.
        ranks: data-parallel ranks.
        aggregation: verl's `loss_agg_mode`.

    Raises: InputError if the whole mini-batch cannot be shared out equally.
    """
    if len(advantages) % ranks:
        raise InputError(
            f"a mini-batch of {len(advantages)} responses cannot be shared by {ranks} ranks; "
            "mini_batch_prompts * n must be a multiple of the ranks"
        )
    if aggregation != "seq-mean-token-sum":
        return list(range(len(advantages)))
    kept: list[int] = advantages.nonzero()[:, 0].tolist()
    missing = -len(kept) % ranks if kept else ranks
    without = (advantages == 0).nonzero()[:, 0]
    shortest = without[lengths[without].argsort(stable=True)]
    return sorted(kept + shortest[:missing].tolist())


def update_settings(actor_rollout_ref: DictConfig, responses: int, kept: int) -> dict[str, Any]:
    """What verl's `update_actor` is told for one update on what is left of a mini-batch.

    Args:
        responses: of the mini-batch before dropping; the loss is divided by them.
        kept: rows that it is given.
    """
    return {
        "global_batch_size": responses,
        "mini_batch_size": kept,
        "epochs": 1,
        "seed": actor_rollout_ref.actor.data_loader_seed,
        "dataloader_kwargs": {"shuffle": False},
        "temperature": actor_rollout_ref.rollout.temperature,
        "calculate_entropy": False,
        "distillation_use_topk": False,
        "distillation_only": False,
    }
