"""The progress of a run as bars in a terminal: one for the run, and one for each running policy."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

SECONDS_BETWEEN_READINGS = 1.0
# The longest wait for the output of jobs that Ctrl-C has ended.
SECONDS_FOR_OUTPUT = 2.0
STANDARD_OUTPUT = 1  # its file descriptor


@dataclass(frozen=True)
class Bar:
    """One bar.

    name: what counts up.
    done, total: how far it is.
    count: the same as text.
    left: the time left as text; empty if it is unknown.
    details: what else is said, such as the reward of a training.
    """

    name: str
    done: int
    total: int
    count: str
    left: str
    details: str = ""


Print = Callable[[str], None]


@contextmanager
def shown_as_bars(read: Callable[[], Sequence[Bar]]) -> Iterator[Print]:
    """Show bars on standard error while the block runs, and lines of text above them.

    Standard output, also that of child processes, goes through a pipe if it is a terminal, because
    it would otherwise be written across the bars.

    Args:
        read: returns the bars. A thread calls it every second.

    Yields: a function that prints lines above the bars.
    """
    console = Console(stderr=True, highlight=False)
    name = Column(no_wrap=True, overflow="ellipsis")
    details = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    progress = Progress(
        TextColumn("{task.description}", markup=False, table_column=name),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[count]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[left]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[details]}", markup=False, table_column=details),
        console=console,
        transient=True,
        expand=True,
        refresh_per_second=2,
    )
    ended = threading.Event()
    shown: dict[str, TaskID] = {}

    def update() -> None:
        while not ended.is_set():
            _update(progress, shown, read())
            ended.wait(SECONDS_BETWEEN_READINGS)

    def print_above(text: str) -> None:
        progress.console.print(text, markup=False, soft_wrap=True)

    thread = threading.Thread(target=update, daemon=True)
    with progress, _output_through(print_above):
        thread.start()
        try:
            yield print_above
        finally:
            ended.set()
            thread.join()


def _update(progress: Progress, shown: dict[str, TaskID], bars: Sequence[Bar]) -> None:
    """Show these bars, in the order in which they first came, and no others."""
    names = [bar.name for bar in bars]
    for name in [name for name in shown if name not in names]:
        progress.remove_task(shown.pop(name))
    for bar in bars:
        fields: dict[str, Any] = {"count": bar.count, "left": bar.left, "details": bar.details}
        if bar.name not in shown:
            shown[bar.name] = progress.add_task(bar.name, total=bar.total, **fields)
        progress.update(shown[bar.name], completed=bar.done, total=bar.total, **fields)


@contextmanager
def _output_through(print_line: Print) -> Iterator[None]:
    """Print each line of standard output with a function, if standard output is a terminal."""
    if not os.isatty(STANDARD_OUTPUT):
        yield
        return
    sys.stdout.flush()
    terminal = os.dup(STANDARD_OUTPUT)
    read_end, write_end = os.pipe()
    os.dup2(write_end, STANDARD_OUTPUT)
    os.close(write_end)

    def copy() -> None:
        with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                print_line(line.rstrip("\n"))

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(terminal, STANDARD_OUTPUT)
        os.close(terminal)
        # The pipe ends when the last job has closed it.
        thread.join(SECONDS_FOR_OUTPUT)
