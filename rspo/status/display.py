"""The progress of a run: a table of all policies, bars, or a line that changes now and then.

`rspo status` prints the table. Snakemake's log handler (`rspo.snakemake.progress`) shows the bars
in a terminal, and the line elsewhere; `rspo train` shows the bars in a terminal. Metrics are those
of the last training step. The k of Pass@k is the largest power of two that exceeds neither the k
nor the n of the cell, because training logs have powers of two only.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.given import DEFAULT_SCALE
from rspo.core.errors import InputError
from rspo.core.settings import first_lines
from rspo.status.bars import Bar, shown_as_bars
from rspo.status.policies import Status, faults, running, statuses
from rspo.status.time_left import Pace, as_text, left
from rspo.training.progress import Snapshot, shown_metrics

SECONDS_BETWEEN_LINES = 15
POLICIES_IN_LINE = 4  # the most running policies in a line
FAULTS_IN_TABLE = 20  # the most faults below the table
FINISHED = ("trained", "scored", "evaluated")  # the states of a policy whose training is over
# The last column has the time since the last record of a running training.
COLUMNS = ("policy", "state", "step", "reward", "Pass@k", "entropy", "last record")


def _details(snapshot: Snapshot) -> dict[str, str]:
    """The step and the metrics of a training as text, by the column of the table."""
    details = {"step": f"{snapshot.step}/{snapshot.steps}"}
    for name, value in snapshot.metrics.items():
        column = "Pass@k" if name.startswith("pass_at_") else name
        details[column] = f"{value:.3f}"
    return details


def _last_step(experiment: Experiment, status: Status) -> Snapshot | None:
    """The last step of a finished cell, from its training log.

    Returns: None for a base policy, which has no log, a cell that is not finished, and a damaged
        log.
    """
    if status.state not in FINISHED:
        return None
    try:
        # A finished training has no progress file any more, but its log has the same metrics.
        record = json.loads(
            experiment.files.training_log(status.policy).read_text().splitlines()[-1]
        )
        metrics = shown_metrics(record, experiment.cell(status.policy))
        # The training is finished, so its last step is also the number of its steps.
        return Snapshot(record["step"], record["step"], metrics)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def line(
    experiment: Experiment,
    jobs: tuple[int, int] | None = None,
    seconds_left: float | None = None,
    pace: Pace | None = None,
) -> str:
    """One line about a run, with some of the running policies; empty if there is nothing to say.

    Args:
        jobs: how many jobs of Snakemake are done, and how many there are.
        seconds_left: the time that the jobs still take; None if it is unknown.
        pace: estimates the time left of each policy; None for a line without times.
    """
    parts = []
    if jobs:
        done, total = jobs
        run_left = left(seconds_left) if done < total else ""
        parts.append(", ".join(filter(None, [f"{done} of {total} jobs done", run_left])))
    at_work = running(experiment)
    for policy, snapshot in list(at_work.items())[:POLICIES_IN_LINE]:
        details = [f"{name} {text}" for name, text in _details(snapshot).items()]
        text = f"{policy} {' '.join(details)}"
        policy_left = left(pace.seconds_left(policy, snapshot.step, snapshot.steps)) if pace else ""
        parts.append(", ".join(filter(None, [text, policy_left])))
    if len(at_work) > POLICIES_IN_LINE:
        parts.append(f"{len(at_work) - POLICIES_IN_LINE} more are running")
    return " | ".join(parts)


def run_bar(jobs: tuple[int, int], seconds_left: float | None) -> list[Bar]:
    """The bar of a run of Snakemake; none if it has no jobs.

    Args:
        jobs: how many jobs are done, and how many there are.
        seconds_left: the time left; None if it is unknown.
    """
    done, total = jobs
    if not total:
        return []
    return [Bar("run", done, total, f"{done} of {total} jobs done", left(seconds_left))]


def bars(experiment: Experiment, pace: Pace) -> list[Bar]:
    """The bar of each running policy.

    Args:
        pace: estimates the time left of each.
    """
    shown = []
    for policy, snapshot in running(experiment).items():
        details = _details(snapshot)
        count = f"step {details.pop('step')}"
        time_left = left(pace.seconds_left(policy, snapshot.step, snapshot.steps))
        text = " ".join(f"{name} {value}" for name, value in details.items())
        shown.append(Bar(policy, snapshot.step, snapshot.steps, count, time_left, text))
    return shown


def table_text(experiment: Experiment) -> str:
    """The text that `rspo status` prints: all policies, and what is wrong with files."""
    policies = statuses(experiment)
    rows = [list(COLUMNS)]
    for status in policies:
        snapshot = status.snapshot or _last_step(experiment, status)
        cells = {"policy": status.policy, "state": status.state}
        if snapshot:
            cells |= _details(snapshot)
        if status.age is not None:
            cells["last record"] = f"{as_text(status.age)} ago"
        rows.append([cells.get(column, "") for column in COLUMNS])
    # Each column is as wide as its widest cell.
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(" ".join(padded).rstrip())
    lines.append(_summary(experiment.scale, policies))
    try:
        sentences = faults(experiment)
    except InputError as error:  # a file of the user that the config names
        sentences = [str(error)]
    lines += first_lines(sentences, FAULTS_IN_TABLE)
    return "\n".join(lines)


def _summary(scale: str, policies: Sequence[Status]) -> str:
    """How many policies are trained, scored and evaluated; some are trained only for their logs."""
    states = Counter(status.state for status in policies)
    trained = sum(states[state] for state in FINISHED)
    planned = sum(status.is_to_be_evaluated for status in policies)
    evaluated = states["evaluated"]
    done = f"{evaluated} of {planned} evaluated"
    if states["scored"]:
        done = f"{evaluated + states['scored']} of {planned} scored, {done}"
    if trained < len(policies):
        return f"{trained} of {len(policies)} policies trained, {done}"
    text = f"{trained} policies trained, {done}"
    if evaluated == planned:
        return text
    command = "snakemake all"
    if scale != DEFAULT_SCALE:
        command += f" --config scale={scale}"
    if states["scored"]:
        return f"{text}: `{command}` makes the curves, which a study does not need"
    return f"{text}: `{command}` evaluates the others"


def shown_in_terminal(experiment: Experiment) -> AbstractContextManager[Any]:
    """Show the progress of what the block trains, if standard error is a terminal.

    Under Snakemake it is a pipe to the log, and Snakemake's own handler shows the progress.
    """
    if not sys.stderr.isatty():
        return nullcontext()
    pace = Pace()
    return shown_as_bars(lambda: bars(experiment, pace))


@contextmanager
def shown(read: Callable[[], str]) -> Iterator[None]:
    """Print a line on standard error while the block runs, whenever it has changed.

    Args:
        read: returns the line. A thread calls it every 15 seconds, or every second as long as the
            line is empty.
    """
    ended = threading.Event()

    def write() -> None:
        last = ""
        while not ended.is_set():
            if (now := read()) and now != last:
                print(f"[{time.strftime('%H:%M:%S')}] {now}", file=sys.stderr, flush=True)
            last = now
            ended.wait(SECONDS_BETWEEN_LINES if now else 1)  # the first line soon

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if last := read():
        print(last, file=sys.stderr, flush=True)
