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

from rspo.config import fingerprints
from rspo.config.experiment import Experiment, base_name
from rspo.core.files import atomic_write, sha256, write_json_lines
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import write_provenance
from rspo.core.replacement import Replace, differences, require_equal, require_same_settings
from rspo.core.usage import Usage
from rspo.datasets.prepared import existing_problems
from rspo.rewards.configured import verifier_inputs
from rspo.training.clipping import clipping_warning
from rspo.training.origin import origin_of, remove_checkpoints, use_checkpoint_of
from rspo.training.progress import usage_before
from rspo.training.records import Record
from rspo.training.validation import log_origin

_INPUTS = ("base", "problems")  # keys of an origin that are no settings
_WAYS_OUT = "--results DIR trains in another folder, --force trains here from the start"
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


def train_cell(experiment: Experiment, name: str, engine: Engine) -> None:
    base = _existing_base(experiment, experiment.cell(name).model)
    problems = existing_problems(experiment, "train")
    experiment = experiment.of_cell(name)  # after the base policy, which all variants share
    checkpoint, steps = experiment.checkpoint(name), experiment.config.training.steps
    settings = fingerprints.settings(experiment, "train", name)

    def has_steps(folder: Path) -> bool:
        return engine.last_step(folder) > 0

    require_replaceable(experiment, name, {"settings": settings}, has_steps)
    with exclusive_lock(experiment.folder(name)), engine.prepare() as train_remaining_steps:
        origin = {
            "settings": settings,
            "base": engine.base_digest(base),
            "problems": sha256(problems),
        }
        with resumed(checkpoint, origin, has_steps, experiment.replace) as earlier:
            if step := engine.last_step(checkpoint):
                print(f"{name} resumes from step {step} of {steps}", flush=True)
            trained = train_remaining_steps()
            _warn_of_clipping(experiment, name, trained.records)
            _publish(experiment, name, trained, base)
            _write_provenance(experiment, name, trained, origin, [base, problems], earlier)


def _existing_base(experiment: Experiment, model: str) -> Path:
    """The base policy of a model.

    Raises: InputError with the command that makes it, if it is missing or was made with other
        settings.
    """
    folder = experiment.existing_policy(base_name(model))
    settings = fingerprints.settings(experiment, "pretrain", model)
    command = experiment.command("pretrain", model)
    require_same_settings(folder, settings, f"`{command} --force` makes it again")
    return folder


def require_replaceable(
    experiment: Experiment,
    name: str,
    origin: Mapping[str, Any],
    has_steps: Callable[[Path], bool],
) -> None:
    """Raise if policy or checkpoint were made with other settings and may not be replaced.

    A training that was begun with these settings and killed may replace the policy, because its
    first start could. A checkpoint of other settings would be removed at the end of this training.

    Args:
        origin: the settings that the policy's provenance will have, without the inputs.
        has_steps: whether a folder has finished steps.

    Raises: InputError that names the first settings that differ.
    """
    if experiment.replace is not Replace.OUTDATED:
        return
    checkpoint = experiment.checkpoint(name)
    begun = origin_of(checkpoint)
    known = isinstance(begun, Mapping)  # earlier versions wrote a fingerprint
    if known and not any(differences(begun, origin, _INPUTS)):
        return
    experiment.require_replaceable(experiment.policy(name), origin, _INPUTS)
    if known and has_steps(checkpoint):
        what = f"{checkpoint} is an unfinished training"
        require_equal(what, begun, origin, _WAYS_OUT, _INPUTS)


@contextmanager
def resumed(
    checkpoint: Path,
    origin: Mapping[str, Any],
    has_steps: Callable[[Path], bool],
    replace: Replace,
) -> Iterator[list[Usage]]:
    """Put the checkpoint of this origin in place; remove it when the block succeeds.

    Args:
        has_steps: whether a folder has finished steps; a checkpoint without is not kept.

    Yields: usage of the earlier processes that trained with it, for the provenance.
    """
    use_checkpoint_of(checkpoint, origin, has_steps, replace is Replace.FROM_THE_START)
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


def _write_provenance(
    experiment: Experiment,
    name: str,
    trained: Trained,
    origin: dict[str, Any],
    inputs: Sequence[Path],
    earlier: Sequence[Usage],
) -> None:
    inputs = [*inputs, *verifier_inputs(experiment, experiment.config.verifier)]
    log_settings, log_inputs = log_origin(experiment, origin)
    for path, settings, used in (
        *((path, origin, inputs) for path in (experiment.policy(name), *trained.files)),
        (experiment.training_log(name), log_settings, [*inputs, *log_inputs]),
    ):
        write_provenance(path, settings, used, trained.gpu_seconds, trained.notes, earlier)
