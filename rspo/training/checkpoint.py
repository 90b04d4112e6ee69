"""Checkpoints: what a killed run needs to go on and end as if it had never been killed."""

import io
import shutil
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

    A checkpoint of other settings is set aside: the config changed, so the run starts anew.
    """
    path = folder / "state.pt"
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state.pop("settings") != fingerprint(settings):
        set_aside(folder)
        return None
    return state


def set_aside(folder: Path) -> None:
    """Make room for a checkpoint of other settings; the last that did stays for who wants it back.

    Whoever changed a setting by mistake changes it back and renames the folder.
    """
    aside = _aside_of(folder)
    if aside.exists():
        shutil.rmtree(aside)
    folder.rename(aside)
    print(f"{folder} was made with other settings: kept as {aside.name}, starting anew")


def remove_checkpoints(folder: Path) -> None:
    """Of a finished policy, with what was set aside on the way."""
    for path in (folder, _aside_of(folder)):
        if path.exists():
            shutil.rmtree(path)


def _aside_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-of-other-settings")
