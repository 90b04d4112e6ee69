"""Everything around the training of a cell, the same for every engine.

It verifies the inputs, chooses the checkpoint, calls the engine, and writes the policy and its log.
Removing the checkpoint marks the cell as finished.
"""

import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rspo.config import steps
from rspo.config.experiment import Experiment, base_name
from rspo.core.files import atomic_write, digest, write_json_lines
from rspo.core.provenance import Done
from rspo.training.clipping import clipping_warning
from rspo.training.origin import (
    is_begun,
    is_begun_with,
    remove_checkpoints,
    use_checkpoint,
)
from rspo.training.records import Record
from rspo.training.validation import validation_note

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    """The result of an engine.

    records: the lines of training.jsonl, one per step.
    save: writes the trained weights into a folder with the base policy's other files.
    files: further files of the cell, to get the policy's provenance.
    gpu_seconds: used by this process; ignored in a SLURM job, which knows its GPUs.
    notes: for the provenance, such as which problems were left out.
    """

    records: Sequence[Record]
    save: Callable[[Path], None]
    files: Sequence[Path] = ()
    gpu_seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Trains one cell: `rspo.training.local_engine` or `rspo.training.verl.run`."""

    @abstractmethod
    def last_step(self, checkpoint: Path) -> int:
        """Finished steps in a folder of checkpoints; 0 without a usable one."""

    @abstractmethod
    def prepare(self) -> AbstractContextManager[Callable[[], Trained]]:
        """Read and verify all inputs; enter to get the function that trains the remaining steps.

        That function raises Stopped after a checkpoint, when a stop is requested.

        Raises: InputError for missing or invalid inputs.
        """


def train_cell(experiment: Experiment, name: str, engine: Engine, force: bool = False) -> None:
    checkpoint, step = experiment.checkpoint(name), steps.train(experiment, name)
    policy, log = step.outputs
    base = experiment.policy(base_name(experiment.cell(name).model))
    problems, config = experiment.problems("train"), experiment.of_cell(name).config
    held_out = experiment.problems("validation")

    def work() -> Done:
        with engine.prepare() as train_remaining_steps:
            # With other weights or problems, it is another training.
            weights = {file.name: digest(file) for file in sorted(base.glob("*.safetensors"))}
            inputs = {"base": weights, "problems": digest(problems)}

            def has_steps(folder: Path) -> bool:
                return engine.last_step(folder) > 0

            earlier = use_checkpoint(step, checkpoint, inputs, has_steps, force)
            if done := engine.last_step(checkpoint):
                print(f"{name} resumes from step {done} of {config.training.steps}", flush=True)
            trained = train_remaining_steps()
        clipped = {name: fmean(record["gradient_clipped"] for record in trained.records)}
        if warning := clipping_warning(clipped, config.training.optimizer.gradient_clip):
            _log.warning("%s", warning)
        _write_policy(policy, trained, base)
        write_json_lines(log, trained.records)
        return Done(
            trained.gpu_seconds,
            trained.notes | validation_note(config.training.validation, held_out),
            earlier,
            trained.files,
            clean_up=lambda: remove_checkpoints(checkpoint),
        )

    step.run(work, force, lambda: is_begun_with(checkpoint, step.settings))
    if checkpoint.exists() and not is_begun(checkpoint):
        with step.locked():  # an earlier process was killed while removing it
            remove_checkpoints(checkpoint)


def _write_policy(policy: Path, trained: Trained, base: Path) -> None:
    with atomic_write(policy) as partial:
        # Not Snakemake's timestamp of the base policy: the new folder would look as old.
        old = shutil.ignore_patterns(".snakemake*", "*.safetensors*")
        shutil.copytree(base, partial, ignore=old)
        trained.save(partial)
