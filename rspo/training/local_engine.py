"""The local engine: trains a cell in this process by `rspo.training.local`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment, base_name
from rspo.core.signals import Stopped, is_requested
from rspo.policies import qwen2
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import verifier_of
from rspo.training.adam import require_finite
from rspo.training.cell import Engine, Trained
from rspo.training.checkpoint import load_checkpoint, save_checkpoint
from rspo.training.fixed_errors import fixed_errors
from rspo.training.local import Trainer
from rspo.training.progress import Progress, shown_metrics
from rspo.training.prompts import Prompts, read_prompts
from rspo.training.records import Record
from rspo.training.validation import held_out_prompts, is_due, validate


class LocalEngine(Engine):
    """Trains in this process."""

    def __init__(self, experiment: Experiment, name: str) -> None:
        self.experiment, self.config = experiment, experiment.config
        self.cell, self.checkpoint = experiment.cell(name), experiment.checkpoint(name)

    def last_step(self, checkpoint: Path) -> int:
        state = load_checkpoint(checkpoint)
        return len(json.loads(state["records"])) if state else 0

    @contextmanager
    def prepare(self) -> Iterator[Callable[[], Trained]]:
        experiment, sampling = self.experiment, self.config.sampling
        base = experiment.policy(base_name(self.cell.model))
        tokenizer = ChatTokenizer(base)
        prompts, too_long = read_prompts(experiment.problems("train"), tokenizer, sampling)
        notes = report_too_long(too_long, sampling, "left out of training")
        held_out = held_out_prompts(experiment, tokenizer)
        verdicts = experiment.verdicts(self.cell.name, "train")
        with verifier_of(experiment, self.config.verifier, verdicts) as verify:
            trainer = Trainer(self.config, self.cell, qwen2.load(base), tokenizer, verify)
            if self.config.rewards.false_accepts_fixed:
                trainer.wrong_answers = fixed_errors(trainer, prompts)
            yield partial(self._train, trainer, prompts, held_out, notes)

    def _train(
        self, trainer: Trainer, prompts: Prompts, held_out: Prompts | None, notes: dict[str, Any]
    ) -> Trained:
        """Train from the last checkpoint; validate, report and save between the steps."""
        training, steps = self.config.training, self.config.training.steps
        records = self._resume(trainer)
        progress = Progress(self.checkpoint, len(records), steps)
        for record in trainer.train(prompts, first=len(records)):
            step = record["step"]
            require_finite(record["gradient_norm"], self.cell.name, step, trainer.rate)
            if held_out is not None and is_due(step, training):
                record |= validate(trainer, step - 1, held_out)
            records.append(record)
            progress.report(step, shown_metrics(record, self.cell))
            stop = is_requested() and step < steps
            if stop or step % training.checkpoint_every == 0:
                self._save(trainer, records)
            if stop:
                raise Stopped(step)
        tokens = {"eos_token_id": trainer.tokenizer.end, "pad_token_id": trainer.tokenizer.pad}
        return Trained(
            records, lambda folder: qwen2.save(trainer.model, folder, tokens), notes=notes
        )

    def _resume(self, trainer: Trainer) -> list[Record]:
        """Load the last checkpoint, if any; returns the records of its steps."""
        state = load_checkpoint(self.checkpoint)
        if state is None:
            return []
        trainer.model.load_state_dict(state["model"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        records: list[Record] = json.loads(state["records"])
        return records

    def _save(self, trainer: Trainer, records: list[Record]) -> None:
        state = {
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "records": json.dumps(records),
        }
        save_checkpoint(self.checkpoint, state)
