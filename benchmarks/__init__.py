"""Measurements with a bar: `python -m benchmarks` runs them all and writes `results.md`.

A new benchmark is one module here with a function `run() -> list[Row]`. Ratios compare what was
timed in one run, taking turns, so that a slow moment of the machine slows both sides.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    what: the quantity, its sizes included.
    measured: the number with its unit.
    bar: what the number must be; empty where it is only reported.
    holds: whether it is; True where there is no bar.
    """

    what: str
    measured: str
    bar: str = ""
    holds: bool = True


def median_cpu_seconds(
    candidates: Mapping[Name, Callable[[], object]], repeats: int, at_least: float = 0.02
) -> dict[Name, float]:
    """Median over `repeats` rounds of the processor time of one call, all taking turns.

    Processor time, because other processes that take the core away would otherwise count, and
    count more for whatever runs longer. Calls that are over in no time are repeated within a
    round until they take `at_least` seconds together.
    """
    calls: dict[Name, int] = {}
    for name, run in candidates.items():
        run()  # what only the first call pays: imports, caches
        calls[name] = 1 + int(at_least / max(_seconds(run, 1), 1e-6))
    rounds = [
        {name: _seconds(candidates[name], calls[name]) for name in calls} for _ in range(repeats)
    ]
    return {name: median(seconds[name] for seconds in rounds) for name in calls}


def _seconds(run: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - start) / calls


def readable(seconds: float) -> str:
    """Three digits in the unit that fits: 12.3 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
