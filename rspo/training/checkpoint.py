"""Checkpoints of trainings: a killed run resumes if the checkpoint has its settings and inputs.

If the settings or inputs have changed, Snakemake and --force start the training over, and any other
command refuses. Each checkpoint folder has a file with its origin, that is, these settings and
inputs. This file is written first and removed first: a folder without the file is the rest of a
removal that was killed, and no run resumes from it.
"""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rspo.core.errors import InputError
from rspo.core.files import atomic_write, write_text
from rspo.core.settings import differences
from rspo.core.signals import SNAKEMAKE
from rspo.pipeline.run import FORCE_HINT, locked
from rspo.pipeline.state import (
    ORIGIN_FILE,
    STATE_FILE,
    Reason,
    State,
    has_steps,
    is_begun,
    origin_of,
)
from rspo.pipeline.task import Task
from rspo.pipeline.usage import Usage
from rspo.training.progress import usage_before

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def checkpoint_state(task: Task) -> State:
    """Whether the file `STATE_FILE` in the checkpoint of a task is complete.

    A checkpoint without this file is not a fault: only a training in one process writes the file.
    """
    assert task.checkpoint is not None  # because the task is a training
    file = task.checkpoint / STATE_FILE
    # torch.save writes a zip file, whose directory comes last: a truncated file is not a zip file.
    if file.is_file() and not zipfile.is_zipfile(file):
        return State(file, Reason.NOT_COMPLETE, task=task)
    return State(file, Reason.UNCHANGED, task=task)


def use_checkpoint(task: Task, inputs: Mapping[str, Any], from_the_start: bool) -> list[Usage]:
    """Keep a task's checkpoint if it has the task's settings and inputs; else start a new one.

    Args:
        inputs: digests of the inputs that decide the training, by name.
        from_the_start: start a new checkpoint in any case.

    Returns: usage of the earlier processes that trained with a kept checkpoint, for the provenance.
        Empty for a new checkpoint.

    Raises: InputError if the checkpoint is damaged; or if it has other settings or inputs, unless
        Snakemake runs this process or `from_the_start` is true.
    """
    folder = task.checkpoint
    assert folder is not None  # because the task is a training
    origin = {"settings": task.settings, **inputs}
    changes = differences(origin_of(folder), origin)
    if not changes and not from_the_start:
        state = checkpoint_state(task)
        if state.is_fault:
            raise InputError(state.refusal)
        return usage_before(folder)
    if has_steps(folder):
        if not from_the_start and SNAKEMAKE not in os.environ:
            raise InputError(f"{State(folder, Reason.OTHER_SETTINGS, changes)}: {FORCE_HINT}")
        print(f"{folder} is removed ({changes or '--force'}): starting from step 1", flush=True)
    remove_checkpoint(folder)
    write_text(folder / ORIGIN_FILE, json.dumps(origin, default=str))
    return []


def remove_left_checkpoint(task: Task) -> None:
    """Remove what is left of a task's checkpoint if a process was killed during the removal."""
    folder = task.checkpoint
    assert folder is not None  # because the task is a training
    if folder.exists() and not is_begun(task):
        with locked(task):
            remove_checkpoint(folder)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint folder, if it exists.

    The file with the origin is removed first (see the top of this file).
    """
    (folder / ORIGIN_FILE).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def save_checkpoint(
    folder: Path, model: "nn.Module", optimizer: "Optimizer", rest: dict[str, Any]
) -> None:
    """Replace the checkpoint of a training in one process.

    Args:
        rest: further state, as plain data.
    """
    import torch  # here, because `rspo status` imports this module

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **rest}
    buffer = io.BytesIO()  # to a file, torch.save would report a full disk as another error
    torch.save(state, buffer)
    with atomic_write(folder / STATE_FILE) as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(folder: Path, model: "nn.Module", optimizer: "Optimizer") -> dict[str, Any]:
    """Read the last checkpoint, if there is one, into the model and the optimizer.

    Returns: the `rest` that `save_checkpoint` saved with it; empty if there is no checkpoint.
    """
    import torch

    if not (folder / STATE_FILE).is_file():
        return {}
    # On the CPU first: the training may go on with another device than the one it began on.
    state: dict[str, Any] = torch.load(folder / STATE_FILE, map_location="cpu", weights_only=True)
    model.load_state_dict(state.pop("model"))
    optimizer.load_state_dict(state.pop("optimizer"))
    return state
