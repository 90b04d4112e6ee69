"""Checkpoints: what a killed run needs to go on and end as if it had never been killed."""

import io
from pathlib import Path
from typing import Any

import torch

from rspo.files import fingerprint, whole


def save_checkpoint(folder: Path, settings: Any, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain data), replacing the checkpoint before it."""
    buffer = io.BytesIO()  # torch hides a full disk behind an error of its own
    torch.save({"settings": fingerprint(settings), **state}, buffer)
    with whole(folder / "state.pt") as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(folder: Path, settings: Any) -> dict[str, Any] | None:
    """The state that was saved for the same settings; None if there is none.

    A checkpoint of other settings is not used: the config changed, so the run starts anew.
    """
    path = folder / "state.pt"
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state.pop("settings") != fingerprint(settings):
        print(f"{path} was made with other settings: starting anew")
        return None
    return state
