"""Progress of a run as text: a table of all policies, or a line that is printed when it changes.

Values are of the last step. Pass@k is of the cell's k, or the largest power of two below it.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.settings import first_lines
from rspo.status.policies import Status, faults, running, statuses
from rspo.training.progress import Snapshot, shown_metrics

SECONDS_BETWEEN_LINES = 15
POLICIES_IN_LINE = 4
FAULTS_IN_TABLE = 20
COLUMNS = ("policy", "state", "step", "reward", "Pass@k", "entropy")


def _details(snapshot: Snapshot) -> dict[str, str]:
    """Step and metrics of a training as text, by column of the table."""
    details = {"step": f"{snapshot.step}/{snapshot.steps}"}
    for name, value in snapshot.metrics.items():
        column = "Pass@k" if name.startswith("pass_at_") else name
        details[column] = f"{value:.3f}"
    return details


def _last_step(experiment: Experiment, status: Status) -> Snapshot | None:
    """The last step of a finished cell; None for a base policy, and if its log is damaged."""
    if status.state not in ("trained", "evaluated"):
        return None
    try:
        record = json.loads(
            experiment.files.training_log(status.policy).read_text().splitlines()[-1]
        )
        metrics = shown_metrics(record, experiment.cell(status.policy))
        return Snapshot(record["step"], record["step"], metrics)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def line(experiment: Experiment, jobs: tuple[int, int] | None = None) -> str:
    """One line: how many jobs of Snakemake are done, of all; and some of the running policies."""
    parts = []
    if jobs:
        done, total = jobs
        parts.append(f"{done} of {total} jobs done")
    at_work = running(experiment)
    for policy, snapshot in list(at_work.items())[:POLICIES_IN_LINE]:
        details = [f"{name} {text}" for name, text in _details(snapshot).items()]
        parts.append(f"{policy} {' '.join(details)}")
    if len(at_work) > POLICIES_IN_LINE:
        parts.append(f"{len(at_work) - POLICIES_IN_LINE} more are running")
    return " | ".join(parts)


def table_text(experiment: Experiment) -> str:
    """All policies of an experiment, and what is wrong with its files."""
    policies = statuses(experiment)
    rows = [list(COLUMNS)]
    for status in policies:
        snapshot = status.snapshot or _last_step(experiment, status)
        cells = {"policy": status.policy, "state": status.state}
        if snapshot:
            cells |= _details(snapshot)
        rows.append([cells.get(column, "") for column in COLUMNS])
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(" ".join(padded).rstrip())
    states = Counter(status.state for status in policies)
    trained = states["trained"] + states["evaluated"]
    lines.append(f"{trained} of {len(policies)} policies trained, {states['evaluated']} evaluated")
    try:
        sentences = faults(experiment)
    except InputError as error:  # a file of the user that the config names
        sentences = [str(error)]
    lines += first_lines(sentences, FAULTS_IN_TABLE)
    return "\n".join(lines)


def shown_in_terminal(experiment: Experiment) -> AbstractContextManager[None]:
    """Show the progress of what the block trains, if standard error is a terminal."""
    return shown(lambda: line(experiment)) if sys.stderr.isatty() else nullcontext()


@contextmanager
def shown(read: Callable[[], str]) -> Iterator[None]:
    """Print a line on standard error while the block runs: every 15 seconds, if it has changed."""
    ended = threading.Event()

    def write() -> None:
        last = ""
        while not ended.is_set():
            if (now := read()) and now != last:
                print(f"[{time.strftime('%H:%M:%S')}] {now}", file=sys.stderr, flush=True)
            last = now
            ended.wait(SECONDS_BETWEEN_LINES if now else 1)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if last := read():
        print(last, file=sys.stderr, flush=True)
