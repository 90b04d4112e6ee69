"""Batches of responses in verl's queue: read and write columns, order and drop rows.

Depends on verl/trainer/ppo/v1/replay_buffer.py (keys are `<prompt>_<sample>_<part>`) and on
verl/trainer/ppo/v1/agent_loop_tq.py (names of the fields).
"""

from typing import Any

import torch
import transfer_queue
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from rspo.core.errors import LostProcess


def fields(batch: KVBatchMeta, *names: str) -> TensorDict:
    """Read columns of a batch. A column whose rows vary in length is a nested tensor."""
    return transfer_queue.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names)
    )


def put_fields(batch: KVBatchMeta, columns: dict[str, Tensor]) -> None:
    """Add columns to a batch, with one row per key."""
    transfer_queue.kv_batch_put(
        keys=batch.keys,
        partition_id=batch.partition_id,
        fields=TensorDict(columns, batch_size=len(batch)),
    )


def sort_by_prompt(batch: KVBatchMeta, expected: int, what: str) -> None:
    """Sort a batch of `expected` responses by prompt, then by sample, in place.

    Args:
        what: the name of the batch in the message of the error, such as "step 3".

    Raises: LostProcess if the servers did not answer all requests.
    """
    if len(batch) != expected:
        raise LostProcess(
            f"{what} has {len(batch)} responses instead of {expected}; see the errors of the other "
            "requests in the log above"
        )
    prompts = [int(index) for index in fields(batch, "index")["index"]]
    # The <sample> of <prompt>_<sample>_<part>.
    samples = [int(key.rsplit("_", 2)[1]) for key in batch.keys]
    order = sorted(range(expected), key=lambda row: (prompts[row], samples[row]))
    batch.reorder(order)


def kept_rows(advantages: Tensor, lengths: Tensor, ranks: int) -> list[int]:
    """Rows of a mini-batch to update on, the same number for every rank and at least one.

    Dropping responses of weight 0 saves their forward and backward pass; docs/verl.md says why the
    update stays the same.

    If the number of responses with non-zero weight is not a multiple of the number of ranks, the
    shortest responses of weight 0 are kept too, up to the next multiple.

    Args:
        advantages: (B,) of the mini-batch's responses. B is a multiple of `ranks`, which
            `verl_config` verifies.
        lengths: (B,) the lengths of the responses, in tokens.
        ranks: number of ranks.
    """
    kept: list[int] = advantages.nonzero()[:, 0].tolist()
    missing = -len(kept) % ranks if kept else ranks  # up to a multiple of the ranks
    of_weight_zero = (advantages == 0).nonzero()[:, 0]
    shortest_first = of_weight_zero[lengths[of_weight_zero].argsort(stable=True)]
    return sorted(kept + shortest_first[:missing].tolist())


def update_settings(actor_rollout_ref: DictConfig, responses: int, kept: int) -> dict[str, Any]:
    """Settings for verl's `update_actor`: one update on those rows of a mini-batch that are kept.

    Args:
        responses: number of responses in the mini-batch before dropping, which divides the loss.
        kept: number of rows that are kept.
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


def sampler_difference(batch: KVBatchMeta) -> dict[str, float]:
    """How far the sampler's log-probabilities of the sampled tokens are from the actor's.

    Returns: under "difference", the mean absolute difference, in nats; under "correlation", the
        correlation, unless it is undefined.
    """
    names = ("old_log_probs", "rollout_log_probs")
    data = fields(batch, *names)
    # (2, tokens): the actor's log-probabilities and the sampler's.
    pair = torch.stack([torch.cat(data[name].unbind()).double() for name in names])
    values = {"difference": (pair[0] - pair[1]).abs().mean().item()}
    # A correlation needs two tokens, and two series that vary.
    if pair.shape[1] > 1 and pair.std(dim=1).min() > 0:
        values["correlation"] = torch.corrcoef(pair)[0, 1].item()
    return values


def response_tokens(data: TensorDict) -> list[list[int]]:
    """Token ids of each response, from the column `responses`."""
    return [response.tolist() for response in data["responses"].unbind()]


def on_every_token(values: list[float], lengths: list[int]) -> Tensor:
    """Repeat each value on every token of its response: a nested tensor (B, length)."""
    rows = [torch.full((length,), value) for value, length in zip(values, lengths, strict=True)]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def on_last_token(values: list[float], lengths: list[int]) -> Tensor:
    """Put each value on the last token of its response: a nested tensor (B, length).

    The other tokens get 0.
    """
    rows = []
    for value, length in zip(values, lengths, strict=True):
        row = torch.zeros(length)
        row[-1] = value
        rows.append(row)
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)
