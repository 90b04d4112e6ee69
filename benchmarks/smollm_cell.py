"""Peak memory and tokens per second of a cell of the scale smollm, by phase, beside a tiny one.

It makes the model from PyPI (benchmarks/smollm_mirror.py), trains for three steps, and evaluates
ten problems. Memory is the resident set without what processes share.
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
STEPS, SAMPLED = 3, 8
INTERVAL = 0.2  # seconds between two looks at the processes
OTHERS = "other processes"
# Names of verl's processes on a CPU, with their phase in training.jsonl.
ROLES = {"ray::Server": "sample", "ray::WorkerDict": "update"}


@dataclass(frozen=True)
class Scale:
    """A cell, one of its benchmarks, and what makes it short."""

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
    """Sampling and update of the steps. The local engine does both in one process.

    The update's tokens are all that were sampled, though it leaves out responses of weight 0.
    """
    tokens = sum(one["tokens_per_second"] * one["seconds"]["sample"] for one in records)
    kept = 1 - fmean(one["zero_weight"] for one in records)
    for role, phase in ROLES.items():
        seconds = sum(one["seconds"][phase] for one in records)
        memory = peaks.get(role, peaks[OTHERS])
        note = f" ({kept:.0%} of the responses have a weight)" if phase == "update" else ""
        yield _row(scale, f"{phase} during training{note}", tokens / seconds, memory)
    if len(peaks) > 1:
        yield Row(f"{scale.name}: verl's other processes", f"{peaks[OTHERS] / 1e9:.2f} GB")


def _row(scale: Scale, phase: str, tokens_per_second: float, memory: int) -> Row:
    return Row(
        f"{scale.name}: {phase}", f"{tokens_per_second:,.0f} tokens/s, {memory / 1e9:.2f} GB"
    )


def _peaks(scale: Scale, folder: Path, words: Sequence[str]) -> dict[str, int]:
    """Run a command of `rspo`; the largest memory of its processes in each role, in bytes."""
    changes = {"training.steps": STEPS, "training.validation.every": None} | scale.changes
    options = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
    rspo = str(Path(sys.executable).with_name("rspo"))
    command = [rspo, *words, "--scale", scale.name, *options]
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
    """Bytes by role, without the memory that processes share."""
    result: dict[str, int] = {}
    for one in [process, *process.children(recursive=True)]:
        try:
            title, memory = " ".join(one.cmdline()), one.memory_info()
        except psutil.Error:  # it has ended
            continue
        role = next((role for role in ROLES if title.startswith(role)), OTHERS)
        result[role] = result.get(role, 0) + memory.rss - memory.shared
    return result
