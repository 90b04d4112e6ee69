"""Choose the checkpoint that a run resumes from: the one with the same settings and inputs.

A cell has the checkpoint of its current training and, after a change of settings, the one before.
Both are removed when the cell is finished. Each has a file with its origin, written first and
removed first. A folder without that file is the rest of a removal that was killed; no run resumes
from it.
"""

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import fingerprint, write_text
from rspo.core.provenance import Usage
from rspo.core.step import Step
from rspo.training.progress import usage_before

STATE_FILE = "state.pt"  # of a training in one process
_NOTE_FILE = "origin.json"


def is_begun(folder: Path) -> bool:
    """Whether a training with this checkpoint folder has started and not finished."""
    return (folder / _NOTE_FILE).is_file()


def is_begun_with(folder: Path, settings: Any) -> bool:
    """Whether that training has these settings, whatever its inputs."""
    begun_with = _origin(folder).get("settings")
    return is_begun(folder) and fingerprint(begun_with) == fingerprint(settings)


def is_damaged(folder: Path) -> bool:
    """Whether the state in a checkpoint folder is not a complete file of PyTorch."""
    state = folder / STATE_FILE
    return state.is_file() and not zipfile.is_zipfile(state)


def _is_made_with(folder: Path, origin: Any) -> bool:
    """Whether the checkpoint in a folder has this origin: settings and inputs, as plain data."""
    return fingerprint(_origin(folder)) == fingerprint(origin)


def _origin(folder: Path) -> dict[str, Any]:
    """Empty if there is none, or it is damaged."""
    try:
        origin: dict[str, Any] = json.loads((folder / _NOTE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return origin


def use_checkpoint(
    step: Step,
    folder: Path,
    inputs: Mapping[str, Any],
    has_steps: Callable[[Path], bool],
    from_the_start: bool,
) -> list[Usage]:
    """Put the checkpoint of these settings and inputs into `folder`, if there is one.

    A checkpoint of another origin is set aside, so you can change a setting and change it back
    without losing steps.

    Args:
        inputs: their digests.
        has_steps: whether a folder has finished steps; a checkpoint without is not kept.
        from_the_start: whether to remove a checkpoint of this origin.

    Returns: usage of the earlier processes that trained with it, for the provenance.

    Raises: InputError for a damaged checkpoint.
    """
    _exchange(folder, {"settings": step.settings, **inputs}, has_steps, from_the_start)
    if is_damaged(folder):
        raise InputError(
            f"{folder / STATE_FILE} is damaged; `{step.command} --force` starts from step 1"
        )
    return usage_before(folder)


def _exchange(
    folder: Path, origin: Any, has_steps: Callable[[Path], bool], from_the_start: bool
) -> None:
    """Put the checkpoint of this origin in place: the one there, the one set aside, or none."""
    aside, between = _aside_of(folder), folder.with_name(f"{folder.name}-coming-back")
    if between.exists():  # killed between the renames below
        between.rename(folder if aside.exists() else aside)
    if from_the_start:
        for own in (folder, aside):
            if _is_made_with(own, origin):
                _remove(own)
    if _is_made_with(folder, origin):
        return
    # verl would append to the events of the other training.
    shutil.rmtree(folder.with_name("tensorboard"), ignore_errors=True)
    restores = _is_made_with(aside, origin)
    if restores:
        aside.rename(between)
    messages = []
    if is_begun(folder) and has_steps(folder):
        _remove(aside)
        folder.rename(aside)
        messages.append(f"{folder} has other settings: kept as {aside.name}")
    _remove(folder)
    if restores:
        between.rename(folder)
        messages.append(f"restored the checkpoint of these settings from {aside.name}")
    else:
        write_text(folder / _NOTE_FILE, json.dumps(origin, default=str))
        messages += ["starting from step 0"] if messages else []
    if messages:
        print(", ".join(messages), flush=True)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoint of a finished policy, and the one set aside."""
    _remove(_aside_of(folder))
    _remove(folder)


def _remove(folder: Path) -> None:
    (folder / _NOTE_FILE).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def _aside_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-of-other-settings")
