"""Batches of responses in verl's queue: what the trainer reads of them, and how it orders them.

Depends on verl/trainer/ppo/v1/replay_buffer.py (keys are `<prompt>_<sample>_<part>`) and on
verl/trainer/ppo/v1/agent_loop_tq.py (which fields there are).
"""

from typing import Any

import torch
import transfer_queue
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from rspo.core.errors import LostProcess


def fields(batch: KVBatchMeta, *names: str) -> TensorDict:
    """Columns of a batch; of varying lengths as nested tensors."""
    return transfer_queue.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names)
    )


def put_fields(batch: KVBatchMeta, columns: dict[str, Tensor]) -> None:
    """Add columns to a batch, a row for each of its keys."""
    transfer_queue.kv_batch_put(
        keys=batch.keys,
        partition_id=batch.partition_id,
        fields=TensorDict(columns, batch_size=len(batch)),
    )


def put_in_order(batch: KVBatchMeta, expected: int, what: str) -> list[int]:
    """Order a batch by prompt, then by sample; the prompt's `index` of each row.

    Raises: LostProcess if the servers did not answer all `expected` requests of `what`.
    """
    if len(batch) != expected:
        raise LostProcess(
            f"{what} has {len(batch)} responses instead of {expected}; the log above says why the "
            "rest failed"
        )
    places = [int(place) for place in fields(batch, "index")["index"]]
    samples = [int(key.rsplit("_", 2)[1]) for key in batch.keys]
    order = sorted(range(expected), key=lambda row: (places[row], samples[row]))
    batch.reorder(order)
    return [places[row] for row in order]


def response_tokens(data: TensorDict) -> list[list[int]]:
    """The tokens of each response, from the column `responses`."""
    return [response.tolist() for response in data["responses"].unbind()]


def on_every_token(values: list[float], lengths: list[int]) -> Tensor:
    """Each value on every token of its response: a nested tensor (B, T of each)."""
    rows = [torch.full((length,), value) for value, length in zip(values, lengths, strict=True)]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def on_last_token(values: list[float], lengths: list[int]) -> Tensor:
    """Each value on the last token of its response: a nested tensor (B, T of each)."""
    rows = []
    for value, length in zip(values, lengths, strict=True):
        row = torch.zeros(length)
        row[-1] = value
        rows.append(row)
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def as_metrics(record: dict[str, Any], prefix: str = "rspo") -> dict[str, float]:
    """A line of training.jsonl as verl's loggers take it: `rspo/validation/pass_at_4`."""
    found: dict[str, float] = {}
    for key, value in record.items():
        name = f"{prefix}/{key}"
        found |= as_metrics(value, name) if isinstance(value, dict) else {name: value}
    return found
