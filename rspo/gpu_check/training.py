"""Trainings with verl: three steps, and a training that is killed and resumed."""

import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rspo.core.files import read_json_lines
from rspo.gpu_check.settings import KILLED, PROMPTS, STEPS, TRAINED, CheckFailed, N, Settings
from rspo.training.records import Record
from rspo.training.sampler_difference import sampler_warning
from rspo.training.verl.checkpoints import RECORDS_FILE, last_step

_KILLED_AFTER, _STEPS_OF_KILLED = 2, 4  # a fast GPU must not finish before the kill
_SECONDS_BETWEEN_LOOKS = 0.02
TO_BE_KILLED = {
    "seeds": KILLED + 1,
    "training": {"steps": _STEPS_OF_KILLED, "validation": {"every": None}},
}  # overrides of the config


def check_steps(settings: Settings) -> str:
    settings.rspo("train", settings.cell(TRAINED))
    records = read_json_lines(settings.experiment().training_log(settings.cell(TRAINED)))
    require_steps(records, STEPS)
    require_dropping(records)
    if warning := sampler_warning({settings.cell(TRAINED): records}):
        raise CheckFailed(warning)
    dropped = sum(round(record["zero_weight"] * PROMPTS * N) for record in records)
    last = records[-1]
    seconds = sum(last["seconds"].values())
    return (
        f"{dropped} of {STEPS * PROMPTS * N} responses had weight 0 and were dropped; last step "
        f"{seconds:.0f} s: {_seconds(last['seconds'])}"
    )


def check_resuming(settings: Settings) -> str:
    changes = TO_BE_KILLED
    experiment, cell = settings.experiment(changes), settings.cell(KILLED)
    words, checkpoint = ("train", cell), experiment.checkpoint(cell)
    process = subprocess.Popen(settings.command(*words, changes=changes))
    while last_step(checkpoint) < _KILLED_AFTER:
        if process.poll() is not None:
            settings.finish(process, *words)
            raise CheckFailed("the training ended before it could be killed")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = records_in(checkpoint)
    settings.rspo(*words, changes=changes)
    records = read_json_lines(experiment.training_log(cell))
    require_steps(records, _STEPS_OF_KILLED)
    if records[: len(before)] != before:
        raise CheckFailed(f"steps 1 to {len(before)} changed when the training resumed")
    shutil.rmtree(experiment.folder(cell))
    return f"killed after step {len(before)}; resumed; each of {len(records)} steps is there once"


def records_in(checkpoint: Path) -> list[Record]:
    """The records in the last complete checkpoint."""
    file = checkpoint / f"global_step_{last_step(checkpoint)}" / RECORDS_FILE
    records: list[Record] = json.loads(file.read_text())
    return records


def require_steps(records: Sequence[Record], steps: int) -> None:
    """Raises: CheckFailed unless each step is there once, with a finite gradient."""
    numbers = [record["step"] for record in records]
    if numbers != list(range(1, steps + 1)):
        raise CheckFailed(f"training.jsonl has the steps {numbers}; expected 1 to {steps}, once")
    for record in records:
        if not math.isfinite(record["gradient_norm"]):
            raise CheckFailed(f"step {record['step']}: the gradient is not finite")


def require_dropping(records: Sequence[Record]) -> None:
    """Raises: CheckFailed unless a step dropped some responses and has a gradient of the others."""
    if not any(record["correct"] > 0 for record in records):
        raise CheckFailed("no response of any step was correct, so nothing was trained")
    for record in records:
        if 0 < record["zero_weight"] < 1 and record["gradient_norm"] > 0:
            return
    raise CheckFailed("no step dropped some responses and trained on the others")


def _seconds(parts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in parts.items())
