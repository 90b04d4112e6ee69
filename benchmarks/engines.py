"""Seconds of a step of the local engine and of verl: one published model, one data set.

The config is that of the check of a node (tests/gpu/config/smollm.yaml), SmolLM2-135M-Instruct on a
CPU. Both engines get the same prompts in the same order and the same settings, and use all cores.
They draw different responses, so the tokens that each samples in a step are listed, too. The
start of the processes, which takes verl a minute, is not included.

It needs verl (`make setup-verl`) and gets the model from PyPI (benchmarks/smollm_mirror.py).
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import Row, make_mirror, readable, rspo_command
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines
from rspo.training.verl.interface import require_version

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tests" / "gpu" / "config" / "smollm.yaml"
CELL = "smollm2-135m--rspo-pass--k4--n16--s0"
STEPS = 6  # the first two are left out as warm-up
# The least ratio of verl's step to the local engine's, on processors that compute in bfloat16.
RATIO = 4.0
SETTINGS = {
    "training.steps": STEPS,
    "training.checkpoint_every": STEPS,
    "training.validation.every": None,
    "grid.main.cells": [
        {"model": "smollm2-135m", "objective": "rspo_pass_at_k", "k": 4, "n": 16},
    ],
}
ENGINES: dict[str, dict[str, Any]] = {
    "verl": {},
    "local": {"engine": "local", "sampler": "torch"},
}


def run() -> list[Row]:
    """The seconds and tokens of a step of each engine, and the ratio of the seconds."""
    try:
        require_version()
    except InputError as error:
        return [Row("a step of verl and of the local engine", f"not measured: {error}")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "config").mkdir()
        shutil.copy(CONFIG, folder / "config")
        make_mirror(folder)
        steps = {engine: _steps(folder, engine) for engine in ENGINES}
    rows = []
    seconds = {}
    for engine, records in steps.items():
        seconds[engine] = median(sum(record["seconds"].values()) for record in records)
        tokens = median(record["tokens_per_second"] * _sampling(record) for record in records)
        step = f"{engine}: a step of 16 prompts x 16 responses, wall time on all cores"
        rows.append(Row(step, readable(seconds[engine])))
        rows.append(Row(f"{engine}: tokens that it samples", f"{tokens:,.0f}"))
    ratio = seconds["verl"] / seconds["local"]
    rows.append(Row("verl / local", f"{ratio:.1f}", f">= {RATIO}", ratio >= RATIO))
    return rows


def _sampling(record: dict[str, Any]) -> float:
    seconds: float = record["seconds"]["sample"]
    return seconds


def _steps(folder: Path, engine: str) -> list[dict[str, Any]]:
    """The records of the steps of a training with an engine, without the warm-up."""
    results = folder / engine
    for words in (["prepare", "train"], ["pretrain", "smollm2-135m", "--mirror", "mirror"]):
        _rspo(folder, engine, words)
    _rspo(folder, engine, ["train", CELL])
    return read_json_lines(results / "cells" / CELL / "training.jsonl")[2:]


def _rspo(folder: Path, engine: str, words: list[str]) -> None:
    """Run a command of `rspo` with the results in a folder of the engine."""
    words = words + ["--scale", "smollm", "--results", engine]
    command = rspo_command(words, SETTINGS | ENGINES[engine])
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
