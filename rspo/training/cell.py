"""Everything around the training of a cell, the same for every engine.

It locks the cell's folder, verifies the inputs, chooses the checkpoint, calls the engine, and
publishes the policy and its log. Removing the checkpoint marks the cell as finished.
"""

import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rspo.config import steps
from rspo.config.experiment import Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.files import atomic_write, sha256, write_json_lines
from rspo.core.step import Step
from rspo.core.usage import Usage
from rspo.training.clipping import clipping_warning
from rspo.training.origin import (
    STATE_FILE,
    is_begun,
    is_begun_with,
    is_damaged,
    remove_checkpoints,
    use_checkpoint_of,
)
from rspo.training.progress import usage_before
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
    def base_digest(self, base: Path) -> Any:
        """Digest of a policy's weights, as plain data. Other weights make another checkpoint."""

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
    if not step.is_due(force or is_begun_with(checkpoint, step.settings)):
        if checkpoint.exists() and not is_begun(checkpoint):
            with step.locked():  # an earlier process was killed while removing it
                remove_checkpoints(checkpoint)
        return
    with step.locked():
        if not force and step.is_made() and not is_begun(checkpoint):
            return  # the process that held the lock has finished it
        _train(experiment, name, engine, force)


def _train(experiment: Experiment, name: str, engine: Engine, force: bool) -> None:
    checkpoint, step = experiment.checkpoint(name), steps.train(experiment, name)
    base = experiment.policy(base_name(experiment.cell(name).model))
    problems = experiment.problems("train")
    experiment = experiment.of_cell(name)

    def has_steps(folder: Path) -> bool:
        return engine.last_step(folder) > 0

    with engine.prepare() as train_remaining_steps:
        inputs = {"base": engine.base_digest(base), "problems": sha256(problems)}
        with resumed(step, checkpoint, inputs, has_steps, force) as earlier:
            if done := engine.last_step(checkpoint):
                of = experiment.config.training.steps
                print(f"{name} resumes from step {done} of {of}", flush=True)
            trained = train_remaining_steps()
            _warn_of_clipping(experiment, name, trained.records)
            _publish(experiment, name, trained, base)
            notes = trained.notes | validation_note(experiment)
            step.record(trained.gpu_seconds, notes, earlier, trained.files)


@contextmanager
def resumed(
    step: Step,
    checkpoint: Path,
    inputs: Mapping[str, Any],
    has_steps: Callable[[Path], bool],
    from_the_start: bool,
) -> Iterator[list[Usage]]:
    """Put the checkpoint of these settings and inputs in place; remove it when the block succeeds.

    Args:
        inputs: their digests.
        has_steps: whether a folder has finished steps; a checkpoint without is not kept.
        from_the_start: whether to remove such a checkpoint.

    Yields: usage of the earlier processes that trained with it, for the provenance.

    Raises: InputError for a damaged checkpoint.
    """
    origin = {"settings": step.settings, **inputs}
    use_checkpoint_of(checkpoint, origin, has_steps, from_the_start)
    if is_damaged(checkpoint):
        raise InputError(
            f"{checkpoint / STATE_FILE} is damaged; `{step.command} --force` starts from step 1"
        )
    yield usage_before(checkpoint)
    remove_checkpoints(checkpoint)


def _warn_of_clipping(experiment: Experiment, name: str, records: Sequence[Record]) -> None:
    fraction = fmean(record["gradient_clipped"] for record in records)
    limit = experiment.config.training.optimizer.gradient_clip
    if warning := clipping_warning({name: fraction}, limit):
        _log.warning("%s", warning)


def _publish(experiment: Experiment, name: str, trained: Trained, base: Path) -> None:
    with atomic_write(experiment.policy(name)) as partial:
        # Not Snakemake's timestamp of the base policy: the new folder would look as old.
        old = shutil.ignore_patterns(".snakemake*", "*.safetensors*")
        shutil.copytree(base, partial, ignore=old)
        trained.save(partial)
    write_json_lines(experiment.training_log(name), trained.records)
