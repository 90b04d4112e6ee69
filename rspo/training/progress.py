"""The progress file of a running job, in its checkpoint folder, for `rspo status`."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rspo.config.experiment import Cell
from rspo.pipeline.usage import Usage, usage_so_far

PROGRESS_FILE = "progress.json"
SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True)
class Snapshot:
    """Progress of a running job.

    step: number of steps that are done.
    steps: number of steps in total.
    metrics: metrics of the last step, such as reward and entropy.
    used: usage of the job's earlier processes and, as the last item, of this process.
    """

    step: int
    steps: int
    metrics: dict[str, float]
    used: list[dict[str, Any]] = field(default_factory=list)


class Progress:
    """Writes the progress file of one job, at most once a second."""

    def __init__(self, folder: Path, start: int, steps: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / PROGRESS_FILE
        self.steps = steps
        self.earlier = usage_before(folder)
        # Write at once: the file may count steps that an earlier process made after its last
        # checkpoint, and that are lost.
        self._write(start, {})

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write that `step` steps are done."""
        now = time.monotonic()
        if now - self.written >= SECONDS_BETWEEN_WRITES or step == self.steps:
            self._write(step, metrics)

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Replace the file; a reader always finds a complete one."""
        self.written = time.monotonic()
        used = [asdict(usage) for usage in self.earlier]
        used.append(asdict(usage_so_far()))
        snapshot = Snapshot(step, self.steps, dict(metrics), used)
        # Not `atomic_write`: flushing to disk costs milliseconds, and losing this file is harmless.
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(snapshot)))
        partial.replace(self.path)


def usage_before(folder: Path) -> list[Usage]:
    """Usage of earlier processes that trained with this checkpoint folder and did not finish.

    The usage of a process lacks at most its last second or its last step, whichever is longer,
    because a process reports after its steps, and at most once a second.
    """
    snapshot = read_progress(folder)
    return [Usage(**used) for used in snapshot.used] if snapshot else []


def read_progress(folder: Path) -> Snapshot | None:
    """Read the last snapshot of the job with this checkpoint folder.

    Returns: None if there is no file, or none that this version can read.
    """
    try:
        return Snapshot(**json.loads((folder / PROGRESS_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def seconds_since_report(folder: Path) -> float | None:
    """Seconds since the job with this checkpoint folder reported its last step, or its start.

    Returns: None if there is no file.
    """
    try:
        reported = (folder / PROGRESS_FILE).stat().st_mtime
    except OSError:
        return None
    # The clocks of two hosts differ.
    return max(0.0, time.time() - reported)


def shown_metrics(record: Mapping[str, Any], cell: Cell) -> dict[str, float]:
    """The metrics that `rspo status` shows: reward, Pass@k and entropy.

    A record has Pass@k for powers of two up to n. Of these, this chooses the largest that does not
    exceed the k of the cell.
    """
    k = 2 ** (min(cell.k, cell.n).bit_length() - 1)
    return {key: record[key] for key in ("reward", f"pass_at_{k}", "entropy")}
