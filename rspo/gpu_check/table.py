"""The table of `rspo gpu-check` as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "pass"
    FAILED = "FAIL"
    NOT_RUN = "not run"  # because of another step, or of Ctrl-C
    NOT_HERE = "not here"  # cannot be checked on this device


@dataclass(frozen=True)
class Memory:
    """Peak memory of a step in bytes: of all its processes, and of the fullest GPU."""

    host: int = 0
    gpu: int = 0


@dataclass(frozen=True)
class Row:
    """A step and its result.

    note: what was measured, or the reason.
    """

    step: str
    outcome: Outcome = Outcome.WAITING
    seconds: float | None = None
    memory: Memory = Memory()
    note: str = ""


COLUMNS = ("step", "seconds", "peak memory", "result")


def page(facts: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The whole file: facts about the machine, and the table."""
    listed = [f"- {name}: {value}" for name, value in facts.items()]
    lines = ["# rspo gpu-check", "", *listed, "", *header(rows), *(line(row, rows) for row in rows)]
    return "\n".join(lines) + "\n"


def header(rows: Sequence[Row]) -> list[str]:
    """The first two lines of the table."""
    widths = _widths(rows)
    return [_joined(COLUMNS, widths), _joined(["-" * width for width in widths], widths)]


def line(row: Row, rows: Sequence[Row]) -> str:
    """The line of a row, as wide as the table of all rows."""
    return _joined(_cells(row), _widths(rows))


def _cells(row: Row) -> tuple[str, str, str, str]:
    seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
    result = ": ".join(filter(None, (row.outcome, row.note)))
    return row.step, seconds, _memory(row.memory), _one_line(result)


def _memory(memory: Memory) -> str:
    parts = [f"{memory.host / 1e9:.1f} GB"] if memory.host else []
    if memory.gpu:
        parts.append(f"GPU {memory.gpu / 1e9:.1f} GB")
    return ", ".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _widths(rows: Sequence[Row]) -> tuple[int, int, int, int]:
    """Of the columns; the last one is as wide as its name, because reasons can be long."""
    longest = max((len(row.step) for row in rows), default=0)
    return (max(longest, len(COLUMNS[0])), len(COLUMNS[1]), len("99.9 GB, GPU 99.9 GB"), 6)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
