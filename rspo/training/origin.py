"""Which checkpoint a run goes on from: the one that was made with the same settings and inputs.

In a cell's folder:

    checkpoint/                      of the training that is not finished yet
    checkpoint-of-other-settings/    the last one that had to make room, until the cell is finished

Each has a note of its origin. It is written first and removed first: a folder without it is what
a kill has left of a checkpoint, and nothing is gone on from there.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rspo.core.files import fingerprint, write_text

_NOTE_FILE = "origin.json"


def is_begun(folder: Path) -> bool:
    """Whether a training with this checkpoint folder has begun and not ended."""
    return (folder / _NOTE_FILE).is_file()


def is_made_with(folder: Path, origin: Any) -> bool:
    """
    Args:
        origin: settings and inputs, as plain data.
    """
    note = folder / _NOTE_FILE
    return note.is_file() and json.loads(note.read_text()) == fingerprint(origin)


def use_checkpoint_of(folder: Path, origin: Any, has_steps: Callable[[Path], bool]) -> None:
    """Leave in `folder` a checkpoint of this origin: the one there, the one set aside, or none yet.

    Whoever changes a setting by mistake and changes it back loses nothing.

    Args:
        has_steps: whether a checkpoint is worth keeping.
    """
    aside, between = _aside_of(folder), folder.with_name(f"{folder.name}-coming-back")
    if between.exists():  # a kill came between the renames below
        between.rename(folder if aside.exists() else aside)
    if is_made_with(folder, origin):
        return
    comes_back = is_made_with(aside, origin)
    if comes_back:
        aside.rename(between)
    said = []
    if is_begun(folder) and has_steps(folder):
        _remove(aside)
        folder.rename(aside)
        said.append(f"{folder} was made with other settings: kept as {aside.name}")
    _remove(folder)
    if comes_back:
        between.rename(folder)
        said.append(f"the checkpoint of these settings is back from {aside.name}")
    else:
        write_text(folder / _NOTE_FILE, json.dumps(fingerprint(origin)))
        said += ["starting anew"] if said else []
    if said:
        print(", ".join(said), flush=True)


def remove_checkpoints(folder: Path) -> None:
    """Of a finished policy, with what was set aside on the way."""
    _remove(_aside_of(folder))
    _remove(folder)


def _remove(folder: Path) -> None:
    (folder / _NOTE_FILE).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def _aside_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-of-other-settings")
