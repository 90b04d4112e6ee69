"""Responses are verified while verl's servers still sample others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from rspo.training.verl import verification
from rspo.training.verl.verification import Verification

N = 3


def snapshot(ended: str, running: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The queue's tags: a letter is a prompt, and those that run have one response."""
    tags: dict[str, dict[str, Any]] = {}
    for prompt in ended + running:
        status = "finished" if prompt in ended else "running"
        tags[prompt] = {"is_prompt": True, "status": status}
        for number in range(N if prompt in ended else 1):
            tags[f"{prompt}_{number}_0"] = {"status": "success"}
    return {"train": tags}


def keys_of(prompt: str) -> list[str]:
    return [f"{prompt}_{number}_0" for number in range(N)]


def test_responses_are_verified_once_and_as_soon_as_all_of_their_prompt_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here only those to the prompt `b` are correct."""
    empty: dict[str, dict[str, dict[str, Any]]] = {}
    snapshots = [empty, snapshot("", "abc"), snapshot("b", "ac"), snapshot("b", "ac")]
    snapshots += [snapshot("ba", "c"), snapshot("bac", "")]
    coming = iter(snapshots)
    batches: list[list[str]] = []

    def verify(keys: Sequence[str], *_: Any) -> NDArray[np.bool_]:
        batches.append(list(keys))
        return np.array([key.startswith("b") for key in keys])

    monkeypatch.setattr(verification.transfer_queue, "kv_list", lambda _: next(coming))
    monkeypatch.setattr(verification, "POLL_SECONDS", 0)
    monkeypatch.setattr(
        verification,
        "fields",
        lambda batch, *_: {"responses": batch.keys, "index": [0] * len(batch.keys)},
    )
    monkeypatch.setattr(verification, "response_tokens", lambda data: data["responses"])
    monkeypatch.setattr(verification, "verify_tokens", verify)
    of_step = Verification(None, [0], None, None)  # type: ignore[arg-type]
    of_step.until_sampled(3)
    assert batches == [keys_of("b"), keys_of("a")]
    keys = keys_of("a") + keys_of("b") + keys_of("c")
    batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id="train")
    assert of_step.correct_of(batch).tolist() == [False] * N + [True] * N + [False] * N
    assert batches[2:] == [keys_of("c")]
