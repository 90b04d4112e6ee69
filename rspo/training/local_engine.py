"""The local engine: trains a cell in this process by `rspo.training.local`."""

import json
import time
from collections.abc import Callable

from rspo.config.experiment import Experiment
from rspo.core.gpus import peak_flops
from rspo.core.signals import Stopped, is_requested
from rspo.policies import qwen2
from rspo.policies.device import place_for
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import verifier_of
from rspo.training.adam import require_finite
from rspo.training.checkpoint import load_checkpoint, save_checkpoint
from rspo.training.local import Trainer
from rspo.training.prompts import Prompts, read_prompts
from rspo.training.records import Record, Trained
from rspo.training.run_log import RunLog
from rspo.training.simulated_errors import simulated_errors
from rspo.training.validation import held_out_prompts, is_due, validate


def train(experiment: Experiment, name: str, begin: Callable[[], None]) -> Trained:
    """Train the remaining steps of a cell; validate, report and save between the steps.

    Args:
        begin: called when the inputs are verified; it keeps or removes the checkpoint.

    Raises: Stopped after a checkpoint, when a stop is requested.
    """
    config = experiment.config
    cell = experiment.cell(name)
    base = experiment.files.policy(experiment.base_of(cell))
    tokenizer = ChatTokenizer(base)
    prompts, too_long = read_prompts(experiment.files.problems("train"), tokenizer, config.sampling)
    long = report_too_long(too_long, config.sampling, "left out of training")
    place = place_for(tokenizer, config.local)
    started = time.monotonic()
    held_out = held_out_prompts(experiment, tokenizer)
    verdicts = experiment.files.verdicts(name, "train")
    with verifier_of(experiment, config.verifier, verdicts) as verify:
        trainer = Trainer(config, cell, place.put(qwen2.load(base)), tokenizer, verify)
        trainer.peak = peak_flops(place.gpu)
        begin()
        if config.rewards.wrong_verdicts:
            # The errors depend on the answers of the base policy, so this comes before the weights
            # of the checkpoint are loaded.
            trainer.accept = simulated_errors(trainer, prompts).accept
        records = _train_remaining_steps(experiment, trainer, prompts, held_out)
    gpus = int(place.device.type == "cuda")
    return Trained(
        records,
        lambda folder: qwen2.save_weights(trainer.model, folder),
        gpu_seconds=gpus * (time.monotonic() - started),
        notes=long | place.note,
    )


def _train_remaining_steps(
    experiment: Experiment, trainer: Trainer, prompts: Prompts, held_out: Prompts | None
) -> list[Record]:
    """Train from the last checkpoint, if there is one; returns the records of all steps."""
    name = trainer.cell.name
    training = trainer.config.training
    checkpoint = experiment.files.checkpoint(name)
    resumed = load_checkpoint(checkpoint, trainer.model, trainer.optimizer)
    records: list[Record] = json.loads(resumed.get("records", "[]"))
    if records:
        print(f"{name} resumes from step {len(records)} of {training.last_step}", flush=True)
    with RunLog(experiment, name, records) as log:
        for record in trainer.train(prompts, first=len(records)):
            step = record["step"]
            require_finite(record["gradient_norm"], name, step, trainer.rate)
            if held_out is not None and is_due(step, training):
                record |= validate(trainer, step - 1, held_out)
            log.add(record)
            # After the last step, training ends anyway.
            stop = is_requested() and step < training.last_step
            if stop or step % training.checkpoint_every == 0:
                rest = {"records": json.dumps(log.records)}
                save_checkpoint(checkpoint, trainer.model, trainer.optimizer, rest)
            if stop:
                raise Stopped(step)
    return log.records
