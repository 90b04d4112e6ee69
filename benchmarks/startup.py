"""Processor time of short commands, in multiples of `python -c "import numpy"`.

Each command works on one problem, so it spends almost all of its time on imports.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import Row, child_cpu_seconds, readable, rspo_command

ROOT = Path(__file__).resolve().parent.parent
POLICY = "small--base"
SUITE = "standard"
BENCHMARKS = ("linear", "multiply", "countdown", "divide", "sequence")
# Options that make every command short.
SMALL = (
    "--results=trial",
    "--set=models.small.scratch.steps=1",
    "--set=evaluation.problems=1",
)
LIMITS = {"status": 4.5, "score": 5.5, "sample": 23}  # in units of an import of numpy
ROUNDS = 5


def run() -> list[Row]:
    """The time of an import of numpy, and of each command in multiples of it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "config", folder / "config")
        for name in BENCHMARKS:
            subprocess.run(rspo("prepare", name), cwd=folder, check=True)
        subprocess.run(rspo("pretrain", "small"), cwd=folder, check=True)
        rounds = [measure(folder) for _ in range(ROUNDS)]
    seconds = {name: median(times[name] for times in rounds) for name in rounds[0]}
    rows = [Row('python -c "import numpy"', readable(seconds["numpy"]))]
    for command, limit in LIMITS.items():
        multiple = seconds[command] / seconds["numpy"]
        measured = f"{multiple:.1f} imports of numpy ({readable(seconds[command])})"
        rows.append(Row(f"rspo {command}", measured, f"<= {limit}", multiple <= limit))
    return rows


def measure(folder: Path) -> dict[str, float]:
    """The processor seconds of each command, after removing the tables that it would skip."""
    for tables in ("samples", "scores"):
        shutil.rmtree(folder / "trial" / "cells" / POLICY / tables, ignore_errors=True)
    return {
        "numpy": child_cpu_seconds([sys.executable, "-c", "import numpy"]),
        "sample": child_cpu_seconds(rspo("sample", POLICY, SUITE), cwd=folder),
        "score": child_cpu_seconds(rspo("score", POLICY, SUITE), cwd=folder),
        "status": child_cpu_seconds(rspo("status"), cwd=folder),
    }


def rspo(*arguments: str) -> list[str]:
    """The words of a command of `rspo` with the small settings."""
    return rspo_command(arguments) + list(SMALL)
