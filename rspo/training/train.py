"""Train a cell: the work before and after the training itself, the same for every engine.

It verifies the inputs, chooses the checkpoint, calls the engine, and writes the policy and its log.
Removing the checkpoint marks the cell as finished.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write, digest, write_json_lines
from rspo.pipeline import tasks
from rspo.pipeline.run import run
from rspo.pipeline.task import Done
from rspo.pipeline.usage import Usage
from rspo.training.checkpoint import remove_checkpoint, remove_left_checkpoint, use_checkpoint
from rspo.training.logs import clipping_warning
from rspo.training.records import Trained
from rspo.training.validation import validation_note

# An engine trains the remaining steps of a cell, from the cell's checkpoint if there is one. When
# the engine has verified its inputs, it calls its last argument, `begin`, which may remove the
# checkpoint.
Engine = Callable[[Experiment, str, Callable[[], None]], Trained]

_log = logging.getLogger(__name__)


def train(experiment: Experiment, name: str, force: bool = False) -> None:
    """Train one cell: write its policy folder, and training.jsonl with one line per step.

    A killed run resumes from its last checkpoint; with the local engine it ends in the same policy,
    bit for bit. With `force`, it replaces a policy, and starts from step 1.

    Raises: Stopped after a checkpoint, when a stop is requested; LostProcess when a process of the
        verl engine died.
    """
    # The task needs the experiment before `for_cell` changes it: problems and base policies are the
    # same for every variant.
    task = tasks.train(experiment, name)
    policy, log = task.outputs
    experiment = experiment.for_cell(name)
    engine = _engine(experiment.config.engine)
    checkpoint = experiment.files.checkpoint(name)
    base = experiment.files.policy(experiment.base_of(experiment.cell(name)))
    problems = experiment.files.problems("train")
    held_out = experiment.files.problems("validation")
    earlier: list[Usage] = []

    def begin() -> None:
        # A checkpoint is used again only if these weights and problems are the same.
        weights = {file.name: digest(file) for file in sorted(base.glob("*.safetensors"))}
        inputs = {"base": weights, "problems": digest(problems)}
        earlier.extend(use_checkpoint(task, inputs, force))

    def work() -> Done:
        trained = engine(experiment, name, begin)
        clipped = fmean(record["gradient_clipped"] for record in trained.records)
        warning = clipping_warning({name: clipped})
        if warning:
            _log.warning("%s", warning)
        _write_policy(policy, trained, base)
        write_json_lines(log, trained.records)
        return Done(
            trained.gpu_seconds,
            trained.notes | validation_note(experiment.config.training.validation, held_out),
            earlier,
            trained.files,
            clean_up=lambda: remove_checkpoint(checkpoint),
        )

    run(task, work, force)
    remove_left_checkpoint(task)


def _engine(name: str) -> Engine:
    """The engine with this name in the config. No other engine is imported: verl is large."""
    if name == "verl":
        from rspo.training.verl import run

        return run.train
    from rspo.training import local_engine

    return local_engine.train


def _write_policy(policy: Path, trained: Trained, base: Path) -> None:
    """Write the policy folder: the files of the base policy, with the trained weights."""
    with atomic_write(policy) as partial:
        # Snakemake keeps the time of a folder in a file inside the folder. A copy of this file
        # would make the new folder look as old as the base policy.
        old = shutil.ignore_patterns(".snakemake*", "*.safetensors*")
        shutil.copytree(base, partial, ignore=old)
        trained.save(partial)
