"""Responses are verified while verl's servers still sample others."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from transfer_queue import KVBatchMeta, interface
from transfer_queue.client import AsyncTransferQueueClient

from rspo.training.verl import verification
from rspo.training.verl.verification import Verification

N = 3


def snapshot(**sampled: int) -> dict[str, dict[str, dict[str, Any]]]:
    """The queue's tags, given the number of sampled responses to each prompt.

    A prompt with all N responses has ended; the next response to any other is being written.
    """
    tags: dict[str, dict[str, Any]] = {}
    for prompt, count in sampled.items():
        tags[prompt] = {"is_prompt": True, "status": "finished" if count == N else "running"}
        for number in range(count):
            tags[f"{prompt}_{number}_0"] = {"status": "success"}
        if count < N:
            tags[f"{prompt}_{count}_0"] = {}
    return {"train": tags}


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The keys of each batch that is verified. Those to the prompt `b` are correct."""
    found: list[list[str]] = []

    def verify(keys: Sequence[str], *_: Any) -> NDArray[np.bool_]:
        found.append(list(keys))
        return np.array([key.startswith("b") for key in keys])

    monkeypatch.setattr(verification, "POLL_SECONDS", 0)
    monkeypatch.setattr(
        verification,
        "fields",
        lambda batch, *_: {"responses": batch.keys, "index": [0] * len(batch.keys)},
    )
    monkeypatch.setattr(verification, "response_tokens", lambda data: data["responses"])
    monkeypatch.setattr(verification, "verify_tokens", verify)
    return found


def test_a_response_is_verified_once_and_while_others_to_its_prompt_are_sampled(
    monkeypatch: pytest.MonkeyPatch, batches: list[list[str]]
) -> None:
    """Every prompt has a long response, so that none ends before the end of the step."""
    empty: dict[str, dict[str, dict[str, Any]]] = {}
    snapshots = [empty, snapshot(a=0, b=0), snapshot(a=1, b=1), snapshot(a=1, b=1)]
    snapshots += [snapshot(a=2, b=2), snapshot(a=2, b=3), snapshot(a=3, b=3)]
    coming = iter(snapshots)
    monkeypatch.setattr(verification.transfer_queue, "kv_list", lambda _: next(coming))
    of_step = Verification(None, [0], None, None)  # type: ignore[arg-type]
    of_step.until_sampled(2)
    assert batches == [["a_0_0", "b_0_0"], ["a_1_0", "b_1_0"], ["b_2_0"]]
    keys = [f"{prompt}_{number}_0" for prompt in "ab" for number in range(N)]
    batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id="train")
    assert of_step.correct_of(batch).tolist() == [False] * N + [True] * N
    assert batches[3:] == [["a_2_0"]]


class Metadata:
    """Stands in for the metadata of a row of the queue."""

    size = 1
    field_names = ("responses",)
    custom_meta = ({},)
    extra_info: ClassVar[dict[str, Any]] = {}

    def update_custom_meta(self, tags: Any) -> None: ...
    def add_fields(self, *_: Any, **__: Any) -> "Metadata":
        return self


class Storage:
    """Stands in for the storage of the queue: notes when the columns are written."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def put_data(self, *_: Any, **__: Any) -> None:
        self.log.append("columns")


def test_the_queue_writes_the_tags_of_a_response_after_its_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then, its columns cannot be read. This is the client of the installed queue."""
    log: list[str] = []
    client = object.__new__(AsyncTransferQueueClient)
    client.client_id = "client"
    client.storage_manager = Storage(log)

    async def retrieve(**_: Any) -> Metadata:
        log.append("key")
        return Metadata()

    async def set_tags(_: Any) -> None:
        log.append("tags")

    monkeypatch.setattr(client, "async_kv_retrieve_meta", retrieve)
    monkeypatch.setattr(client, "async_set_custom_meta", set_tags)
    monkeypatch.setattr(interface, "_maybe_create_tq_client", lambda: client)
    columns = TensorDict({"responses": torch.ones(1, 2)}, batch_size=1)
    put = interface.async_kv_batch_put(["a_0_0"], "train", columns, tags=[{"status": "success"}])
    asyncio.run(put)
    assert log == ["key", "columns", "tags"]
