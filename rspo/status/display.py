"""Progress of a run as text: a table of all policies, or a line that is printed when it changes.

reward, Pass@k and entropy are those of the last step that a job reported, or that a finished cell
logged. Pass@k is that of the cell's k, or of the largest power of two below it.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.status.policies import Status, faults, statuses
from rspo.training.progress import shown_metrics

SECONDS_BETWEEN_LINES = 15
MOST_NAMED = 4  # running policies in a line
MOST_FAULTS = 20  # lines below a table
DETAILS = ("step", "reward", "Pass@k", "entropy")
Jobs = tuple[int, int]  # of Snakemake: done, and all


def counts(policies: Sequence[Status], jobs: Jobs | None = None) -> str:
    """How much is done."""
    states = Counter(status.state for status in policies)
    parts = [f"{jobs[0]} of {jobs[1]} jobs done"] if jobs else []
    if policies:
        trained = states["trained"] + states["evaluated"]
        parts.append(f"{trained} of {len(policies)} policies trained")
        parts.append(f"{states['evaluated']} evaluated")
    return ", ".join(parts)


def _details(status: Status) -> dict[str, str]:
    if (snapshot := status.snapshot) is None:
        return {}
    return _metrics(snapshot.step, snapshot.steps, snapshot.metrics)


def _metrics(step: int, steps: int, metrics: Mapping[str, float]) -> dict[str, str]:
    details = {"step": f"{step}/{steps}"}
    for name, value in metrics.items():
        details["Pass@k" if name.startswith("pass_at_") else name] = f"{value:.3f}"
    return details


def _final(experiment: Experiment, status: Status) -> dict[str, str]:
    """The details of a finished cell; none for a base policy, and if its log is damaged."""
    if status.state not in ("trained", "evaluated") or experiment.is_base(status.policy):
        return {}
    try:
        record = json.loads(experiment.training_log(status.policy).read_text().splitlines()[-1])
        metrics = shown_metrics(record, experiment.cell(status.policy))
        return _metrics(record["step"], record["step"], metrics)
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def line(policies: Sequence[Status], jobs: Jobs | None = None) -> str:
    """One line: how much is done, and some of the running policies."""
    running = [status for status in policies if status.state == "running"]
    parts = [counts(policies, jobs)]
    for status in running[:MOST_NAMED]:
        details = (f"{name} {text}" for name, text in _details(status).items())
        parts.append(" ".join([status.policy, *details]))
    if len(running) > MOST_NAMED:
        parts.append(f"{len(running) - MOST_NAMED} more are running")
    return " | ".join(parts)


def table_text(experiment: Experiment) -> str:
    """All policies of an experiment, and what is wrong with its files."""
    policies = statuses(experiment)
    rows = [["policy", "state", *DETAILS]]
    for status in policies:
        details = _details(status) or _final(experiment, status)
        rows.append([status.policy, status.state, *(details.get(name, "") for name in DETAILS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    try:
        found = faults(experiment)
    except InputError as error:  # a file of the user that the config names
        found = [str(error)]
    more = [f"and {len(found) - MOST_FAULTS} more"] if len(found) > MOST_FAULTS else []
    return "\n".join([*lines, counts(policies), *found[:MOST_FAULTS], *more])


@contextmanager
def shown_in_terminal(experiment: Experiment, policy: str) -> Iterator[None]:
    """Show the progress of a policy while the block trains it, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with shown(lambda: line(statuses(experiment, {policy: ()}))):
        yield


@contextmanager
def shown(read: Callable[[], str]) -> Iterator[None]:
    """Print progress on standard error while the block runs: every 15 seconds, if it has changed.

    Args:
        read: returns one line; runs in another thread.
    """
    ended = threading.Event()

    def write() -> None:
        last = ""
        while not ended.is_set():
            if (now := read()) != last:
                print(f"[{time.strftime('%H:%M:%S')}] {now}", file=sys.stderr, flush=True)
            last = now
            ended.wait(SECONDS_BETWEEN_LINES)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    print(read(), file=sys.stderr, flush=True)
