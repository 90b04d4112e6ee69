"""What a running job tells the rest of the world: one small file beside its checkpoint."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rspo.core.slurm_job import host_name
from rspo.core.usage import Usage, usage_so_far

SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True)
class Snapshot:
    """Where a running job stands.

    step, steps: done and in total.  seconds_per_step: since this process started.
    metrics: the last step's, such as reward and entropy.  written: seconds since the epoch.
    used: what this process and those before it at the same cell used, this one's last.
    """

    step: int
    steps: int
    seconds_per_step: float
    metrics: dict[str, float]
    host: str
    process: int
    written: float
    used: list[dict[str, Any]] = field(default_factory=list)


class Progress:
    """Writes the progress file of one job, at most once a second."""

    def __init__(self, folder: Path, start: int, steps: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "progress.json"
        self.start, self.steps = start, steps
        self.earlier = usage_before(folder)
        self.started = self.written = time.monotonic()

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        if now - self.written < SECONDS_BETWEEN_WRITES and step < self.steps:
            return
        self.written = now
        per_step = (now - self.started) / max(1, step - self.start)
        used = [asdict(usage) for usage in [*self.earlier, usage_so_far()]]
        snapshot = Snapshot(
            step, self.steps, per_step, dict(metrics), host_name(), os.getpid(), time.time(), used
        )
        # Not `files.whole`: this is news, not a result, and flushing to disk costs milliseconds.
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(snapshot)))
        partial.replace(self.path)


def say_where_it_goes_on(cell: str, step: int, steps: int) -> None:
    """A line for the log, if something was done before."""
    if step:
        print(f"{cell} goes on from step {step} of {steps}", flush=True)


def usage_before(folder: Path) -> list[Usage]:
    """What processes used that worked on the job with this checkpoint folder and did not end it.

    Known up to their last report, which came at most a second or a step before their end.
    """
    snapshot = read_progress(folder)
    return [Usage(**used) for used in snapshot.used] if snapshot else []


def read_progress(folder: Path) -> Snapshot | None:
    """The last snapshot of the job with this checkpoint folder; None if there is none."""
    try:
        return Snapshot(**json.loads((folder / "progress.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
