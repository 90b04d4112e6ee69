"""Read the training.jsonl of a finished training."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import read_json_lines


def read_log(path: Path, steps: int, remedy: str) -> list[dict[str, Any]]:
    """Read the records of a finished training, one for each step.

    Args:
        remedy: advice that ends the error message.

    Raises: InputError for a log that is missing, or lacks a step.
    """
    log = read_json_lines(path)
    if [row.get("step") for row in log] != list(range(1, steps + 1)):
        raise InputError(
            f"{path}: has {len(log)} rows, expected one for each step 1 to {steps} in order; "
            f"{remedy}"
        )
    return log


def column(path: Path, log: Sequence[dict[str, Any]], key: str) -> list[float]:
    """The values of `key` in a log, step by step.

    Args:
        path: of the log, for the error message.

    Raises: InputError if a number is missing or not finite.
    """
    for row in log:
        value = row.get(key)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(
                f"{path}, line {row['step']}: {key} is {value!r}, expected a finite number"
            )
    return [float(row[key]) for row in log]
