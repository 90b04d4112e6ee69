"""Progress of a run as text: a table, one line, or a table that stays at the bottom of a terminal.

reward, Pass@k and entropy are those of the last step that a job reported. Pass@k is that of the
cell's k, or of the largest power of two below it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rich.ansi import AnsiDecoder
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from rspo.config.experiment import Experiment
from rspo.status.policies import Status, Suites, seconds_of_training_left, statuses

SECONDS_BETWEEN_LINES = 15
REFRESHES_PER_SECOND = 0.5
DETAILS = ("step", "reward", "Pass@k", "entropy", "left")
STYLES = {"running": "green", "stopped": "red", "stale": "yellow", "waiting": "dim"}
WIDTH_OF_FILES = 200  # columns, where the output is no terminal


@dataclass(frozen=True)
class Run:
    """Progress of a run.

    jobs: jobs of Snakemake that are done, and all of them; None outside of Snakemake.
    """

    policies: Sequence[Status]
    jobs: tuple[int, int] | None = None

    @property
    def evaluated(self) -> int:
        return sum(status.state == "evaluated" for status in self.policies)

    @property
    def trained(self) -> int:
        return self.evaluated + sum(status.state == "trained" for status in self.policies)

    @property
    def running(self) -> list[Status]:
        return [status for status in self.policies if status.state == "running"]

    @property
    def is_finished(self) -> bool:
        return all(status.seconds_left == 0 for status in self.policies)

    @property
    def counts(self) -> str:
        counts = ["{} of {} jobs done".format(*self.jobs)] if self.jobs else []
        if self.policies:
            counts.append(f"{self.trained} of {len(self.policies)} policies trained")
            counts.append(f"{self.evaluated} evaluated")
        return ", ".join(counts)

    @property
    def time_left(self) -> str:
        """When training and evaluation will be finished, in words."""
        left = [status.seconds_left for status in self.policies]
        if any(seconds is None for seconds in left):
            is_trained = self.trained == len(self.policies)
            return f"time left is known after the first {'evaluation' if is_trained else 'cell'}"
        if self.is_finished:
            return "all policies finished"
        running = [status.seconds_left or 0.0 for status in self.running]
        # Running jobs work in parallel, but the run takes at least as long as the longest of them.
        seconds = max([sum(x or 0.0 for x in left) / max(1, len(running)), *running])
        clock = time.strftime("%H:%M", time.localtime(time.time() + seconds))
        return f"about {duration(seconds)} left (until {clock})"


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `5.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _details(status: Status) -> dict[str, str]:
    if (snapshot := status.snapshot) is None:
        return {}
    details = {"step": f"{snapshot.step}/{snapshot.steps}"}
    for name, value in snapshot.metrics.items():
        details["Pass@k" if name.startswith("pass_at_") else name] = f"{value:.3f}"
    if status.state == "running":
        details["left"] = duration(seconds_of_training_left(snapshot))
    return details


def line(run: Run) -> str:
    """One line: how much is done, each running policy, and the time left."""
    running = [
        " ".join([status.policy, *(f"{name} {text}" for name, text in _details(status).items())])
        for status in run.running
    ]
    return " | ".join([run.counts, *running, *([run.time_left] if run.policies else [])])


def table(run: Run, policies: Sequence[Status]) -> RenderableType:
    """A bar for the run, and a row for each of some of its policies."""
    done, total = run.jobs or (run.trained + run.evaluated, 2 * len(run.policies))
    rows = Table("policy", "state", box=None, pad_edge=False)
    for name in DETAILS:
        rows.add_column(name, justify="right")
    for column in rows.columns:
        column.no_wrap = True
    for status in policies:
        details = _details(status)
        cells = [details.get(name, "") for name in DETAILS]
        rows.add_row(status.policy, status.state, *cells, style=STYLES.get(status.state))
    summary = f"{run.counts}; {run.time_left}" if run.policies else run.counts
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=total, completed=done, width=60), f"{done / max(1, total):.0%}")
    return Group(*([rows] if policies else []), bar, summary)


def table_text(experiment: Experiment) -> str:
    """All policies of an experiment, in colour for a terminal."""
    run = Run(statuses(experiment))
    width = None if sys.stdout.isatty() else WIDTH_OF_FILES
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table(run, run.policies))
    return "\n".join(text.rstrip() for text in capture.get().splitlines())


def follow(experiment: Experiment, suites: Suites | None = None) -> None:
    """Show the progress of a run until all policies are finished."""

    def read() -> Run:
        return Run(statuses(experiment, suites))

    with shown(read):
        while not read().is_finished:
            time.sleep(SECONDS_BETWEEN_LINES)


@contextmanager
def shown(read: Callable[[], Run]) -> Iterator[None]:
    """Show progress on standard error while the block runs; `read` runs in another thread.

    In a terminal this is a table below everything else that is printed, and otherwise one line
    every 15 seconds.
    """
    terminal = Console(stderr=True)
    is_live = terminal.is_terminal and not terminal.is_dumb_terminal
    with _live_table(read) if is_live else _lines(read):
        yield
    print(line(read()), file=sys.stderr, flush=True)


@contextmanager
def shown_in_terminal(experiment: Experiment, policy: str) -> Iterator[None]:
    """Show the progress of a policy while the block trains it, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with shown(lambda: Run(statuses(experiment, {policy: ()}))):
        yield


@contextmanager
def _lines(read: Callable[[], Run]) -> Iterator[None]:
    stopped = threading.Event()

    def write() -> None:
        last = ""
        while not stopped.is_set():
            now = line(read())
            if now != last:
                print(f"[{time.strftime('%H:%M:%S')}] {now}", file=sys.stderr, flush=True)
                last = now
            stopped.wait(SECONDS_BETWEEN_LINES)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextmanager
def _live_table(read: Callable[[], Run]) -> Iterator[None]:
    def draw() -> RenderableType:
        run = read()
        return table(run, run.running)

    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        console = Console(file=terminal, highlight=False)
        live = Live(
            console=console,
            get_renderable=draw,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with live, _output_to(console):
            live.refresh()
            yield


@contextmanager
def _output_to(console: Console) -> Iterator[None]:
    """Print what this process and its children write to the terminal above a live table.

    They write to file descriptors, which point to a pipe while the block runs. If this process is
    killed, `tee -p` in the rules keeps the jobs running.
    """
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]
    saved = {stream.fileno(): os.dup(stream.fileno()) for stream in streams}
    output, end = os.pipe()

    def copy() -> None:
        decoder = AnsiDecoder()  # keeps colours across lines
        with os.fdopen(output, errors="replace", newline="\n") as lines:
            for text in lines:
                shown = text.rstrip("\r\n").rpartition("\r")[2]  # of a progress bar: its last state
                with suppress(OSError):  # a lost terminal; the children must not lose the pipe
                    console.print(decoder.decode_line(shown), soft_wrap=True)

    for descriptor in saved:
        os.dup2(end, descriptor)
    os.close(end)
    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)
        thread.join(timeout=5)  # ends when the last child that has the pipe ends
