"""The records of a training as event files of TensorBoard, where that package is installed.

TensorBoard reads these files without a network: `tensorboard --logdir FOLDER`.
"""

import importlib.util
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_log = logging.getLogger(__name__)


def scalars_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record by their names in TensorBoard, which groups by what is before "/".

    A key such as `reward` becomes `training/reward`; the phases of `seconds` become
    `seconds/sample` and so on.
    """
    scalars = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            for name, number in value.items():
                scalars[f"{key}/{name}"] = float(number)
        elif key != "step":
            scalars[f"training/{key}"] = float(value)
    return scalars


class Events:
    """Writes the event files of one training; does nothing without the package tensorboard."""

    def __init__(self, folder: Path, first_step: int) -> None:
        """Begin a file in `folder`.

        Args:
            first_step: the next step, counted from 1. TensorBoard ignores this step and later ones
                in earlier files, because a killed training made them after its last checkpoint.
        """
        self.writer: SummaryWriter | None = None
        if importlib.util.find_spec("tensorboard") is None:
            return
        from torch.utils import tensorboard  # takes a second

        if first_step == 1 and folder.exists():  # of an earlier training of this cell
            shutil.rmtree(folder)
        self.writer = tensorboard.SummaryWriter(folder, purge_step=first_step)
        print(f"to watch this training: tensorboard --logdir {folder}", flush=True)

    def add(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of a step, so that they are in the file when this returns.

        After an error this warns, and writes no more: training.jsonl has the same numbers, and a
        training must not end because somebody removed its charts from a shared disk.
        """
        if self.writer is None:
            return
        try:
            for name, number in scalars_of(record).items():
                self.writer.add_scalar(name, number, record["step"])
            self.writer.flush()
        except OSError as error:
            _log.warning("TensorBoard shows no further steps of this training: %s", error)
            self.writer = None

    def close(self) -> None:
        """End the thread that writes the file."""
        if self.writer is not None:
            self.writer.close()
