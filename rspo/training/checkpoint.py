"""Checkpoints of training in one process: a killed run resumes and trains the same policy."""

import io
from pathlib import Path
from typing import Any

import torch

from rspo.core.files import atomic_write
from rspo.training.origin import STATE_FILE, is_damaged


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain data); it replaces the previous checkpoint atomically."""
    buffer = io.BytesIO()  # torch.save to a file reports a full disk as another error
    torch.save(state, buffer)
    with atomic_write(folder / STATE_FILE) as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Read the last saved state; None if there is none or it is damaged."""
    if not (folder / STATE_FILE).is_file() or is_damaged(folder):
        return None
    state: dict[str, Any] = torch.load(folder / STATE_FILE, weights_only=True)
    return state
