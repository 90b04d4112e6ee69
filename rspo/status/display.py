"""Progress of a run as text: a table of all policies, or a line that is printed when it changes.

reward, Pass@k and entropy are those of the last step that a running job reported. Pass@k is that
of the cell's k, or of the largest power of two below it.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rspo.config.experiment import Experiment
from rspo.status.policies import Status, faults, statuses

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
    """Step and metrics of a job."""
    if (snapshot := status.snapshot) is None:
        return {}
    details = {"step": f"{snapshot.step}/{snapshot.steps}"}
    for name, value in snapshot.metrics.items():
        details["Pass@k" if name.startswith("pass_at_") else name] = f"{value:.3f}"
    return details


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
        details = _details(status)
        rows.append([status.policy, status.state, *(details.get(name, "") for name in DETAILS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    try:
        found = faults(experiment)
    except OSError as error:  # a file of the user that the config names
        found = [f"{error.filename}: {error.strerror}"]
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
