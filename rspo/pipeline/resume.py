"""Whether an earlier process began the work of a task and left a checkpoint to resume from.

A checkpoint folder has a file with its origin, which is written first and removed first.
"""

import json
from pathlib import Path
from typing import Any

from rspo.core.settings import differences
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.task import Task

ORIGIN_FILE = "origin.json"  # in a checkpoint folder: settings and inputs of its training


def origin_of(checkpoint: Path) -> dict[str, Any]:
    """Settings and inputs of a checkpoint; empty if there is none, or its file is damaged."""
    try:
        origin: dict[str, Any] = json.loads((checkpoint / ORIGIN_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return origin


def is_begun(task: Task) -> bool:
    """Whether an earlier process began the work, left a checkpoint, and did not finish."""
    origin = _origin_file(task)
    return origin is not None and origin.is_file() and not is_left(task)


def is_begun_with_settings(task: Task) -> bool:
    """Whether that process had the settings of the task, whatever its inputs."""
    if task.checkpoint is None or not is_begun(task):
        return False
    return not differences(origin_of(task.checkpoint).get("settings"), task.settings)


def is_left(task: Task) -> bool:
    """Whether the checkpoint is of a process that finished and was killed before it removed it.

    A process writes the provenance of all outputs last, so it is then newer than the origin file.
    """
    origin = _origin_file(task)
    if origin is None or not origin.is_file():
        return False
    if not has_outputs(task):
        return False
    began = origin.stat().st_mtime_ns
    return all(provenance_path(path).stat().st_mtime_ns > began for path in task.outputs)


def has_outputs(task: Task) -> bool:
    """Whether all outputs exist and have provenance, be they current or not."""
    return all(path.exists() and read_provenance(path) for path in task.outputs)


def _origin_file(task: Task) -> Path | None:
    return task.checkpoint / ORIGIN_FILE if task.checkpoint else None
