"""What a training must have logged, and a training that is killed."""

import json
import math
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rspo.training.verl.checkpoints import RECORDS_FILE, last_step
from tests.gpu.settings import KILLED, Settings

STEPS_OF_KILLED = 4  # a fast GPU must not finish before the kill
_KILLED_AFTER = 2
_SECONDS_BETWEEN_LOOKS = 0.02
TO_BE_KILLED = {
    "seeds": KILLED + 1,
    "training": {"steps": STEPS_OF_KILLED, "validation": {"every": None}},
}  # overrides of the config


def train_and_kill(settings: Settings) -> list[dict[str, Any]]:
    """Kill a training after its second checkpoint; returns the records in its last one."""
    cell = settings.cell(KILLED)
    checkpoint = settings.experiment(TO_BE_KILLED).checkpoint(cell)
    process = settings.start("train", cell, changes=TO_BE_KILLED)
    while last_step(checkpoint) < _KILLED_AFTER:
        status = process.poll()
        assert status is None, f"the training exited with {status} before it could be killed"
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return _records_in(checkpoint)


def _records_in(checkpoint: Path) -> list[dict[str, Any]]:
    """The records in the last complete checkpoint."""
    file = checkpoint / f"global_step_{last_step(checkpoint)}" / RECORDS_FILE
    records: list[dict[str, Any]] = json.loads(file.read_text())
    return records


def require_steps(records: Sequence[dict[str, Any]], steps: int) -> None:
    """Raises: AssertionError unless each step is there once, with a finite gradient."""
    numbers = [record["step"] for record in records]
    expected = list(range(1, steps + 1))
    assert numbers == expected, f"logged steps: {numbers}; expected: 1 to {steps}, each once"
    for record in records:
        finite = math.isfinite(record["gradient_norm"])
        assert finite, f"step {record['step']}: the gradient is not finite"


def require_dropping(records: Sequence[dict[str, Any]]) -> None:
    """Raises: AssertionError unless a step dropped responses and has a gradient of the others."""
    correct = any(record["correct"] > 0 for record in records)
    assert correct, "no response of any step was correct, so nothing was trained"
    dropped = any(
        0 < record["zero_weight"] < 1 and record["gradient_norm"] > 0 for record in records
    )
    assert dropped, "no step dropped some responses and trained on the others"
