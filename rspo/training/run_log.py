"""The records of a training while it runs, which others can read after every step.

Both engines write them here: into `training.jsonl` in the checkpoint folder, into the progress file
of `rspo status`, and into event files of TensorBoard. When the training ends, `train.py` writes the
cell's own training.jsonl, which is complete if it exists.
"""

import json
from collections.abc import Iterable
from types import TracebackType

from rspo.config.experiment import Experiment
from rspo.core.files import write_json_lines
from rspo.training.events import Events
from rspo.training.progress import Progress, shown_metrics
from rspo.training.records import Record

LOG_FILE = "training.jsonl"  # in the checkpoint folder


class RunLog:
    """Adds a record after each step of a training.

    records: those of all steps so far. A checkpoint contains them, so that a resumed training has
        each step once.
    """

    def __init__(self, experiment: Experiment, name: str, records: Iterable[Record]) -> None:
        """Begin with the records of a checkpoint; none if the training begins.

        The file may have lines of later steps, which are lost, and an incomplete last line, which
        only a kill during a write leaves. Both are dropped.
        """
        self.records = list(records)
        self.cell = experiment.cell(name)
        folder = experiment.files.checkpoint(name)
        done = self.records[-1]["step"] if self.records else 0
        self.progress = Progress(folder, done, experiment.config.training.last_step)
        self.path = folder / LOG_FILE
        write_json_lines(self.path, self.records)
        self.events = Events(experiment.files.events(name), done + 1)

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.events.close()

    def add(self, record: Record) -> None:
        """Add the record of the next step.

        When this returns, the line is in the file. It is written by a single call, so a reader does
        not find a part of it, and the file is closed, so hosts that share a file system see it.
        """
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.progress.report(record["step"], shown_metrics(record, self.cell))
        self.events.add(record)
