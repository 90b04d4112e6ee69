"""The local engine: trains a cell in this process by `rspo.training.local`."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable

import torch

from rspo.config.experiment import Experiment, base_name
from rspo.core.seeds import generator_of
from rspo.core.signals import Stopped, is_requested
from rspo.policies import qwen2
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import verifier_of
from rspo.rewards.extraction import last_box
from rspo.training.adam import require_finite
from rspo.training.checkpoint import load_checkpoint, save_checkpoint
from rspo.training.local import Trainer
from rspo.training.progress import Progress, shown_metrics
from rspo.training.prompts import Prompts, read_prompts
from rspo.training.records import Record, Trained, texts_of
from rspo.training.validation import held_out_prompts, is_due, validate, verified_samples

_SAMPLES = 32  # of the base policy, to each prompt with a systematic error


def train(experiment: Experiment, name: str, begin: Callable[[], None]) -> Trained:
    """Train the remaining steps of a cell; validate, report and save between the steps.

    Args:
        begin: called when the inputs are verified; chooses the checkpoint.

    Raises: Stopped after a checkpoint, when a stop is requested.
    """
    config, cell, checkpoint = experiment.config, experiment.cell(name), experiment.checkpoint(name)
    base, training = experiment.policy(base_name(cell.model)), config.training
    tokenizer = ChatTokenizer(base)
    prompts, too_long = read_prompts(experiment.problems("train"), tokenizer, config.sampling)
    notes = report_too_long(too_long, config.sampling, "left out of training")
    held_out = held_out_prompts(experiment, tokenizer)
    verdicts = experiment.verdicts(name, "train")
    with verifier_of(experiment, config.verifier, verdicts) as verify:
        trainer = Trainer(config, cell, qwen2.load(base), tokenizer, verify)
        begin()
        if config.rewards.false_accepts_fixed:
            trainer.wrong_answers = fixed_errors(trainer, prompts)
        model, optimizer = trainer.model, trainer.optimizer
        resumed = load_checkpoint(checkpoint, model, optimizer)
        records: list[Record] = json.loads(resumed.get("records", "[]"))
        if records:
            print(f"{name} resumes from step {len(records)} of {training.steps}", flush=True)
        progress = Progress(checkpoint, len(records), training.steps)
        for record in trainer.train(prompts, first=len(records)):
            step = record["step"]
            require_finite(record["gradient_norm"], name, step, trainer.rate)
            if held_out is not None and is_due(step, training):
                record |= validate(trainer, step - 1, held_out)
            records.append(record)
            progress.report(step, shown_metrics(record, cell))
            stop = is_requested() and step < training.steps
            if stop or step % training.checkpoint_every == 0:
                done = {"records": json.dumps(records)}
                save_checkpoint(checkpoint, model, optimizer, done)
            if stop:
                raise Stopped(step)
    tokens = {"eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad}
    return Trained(records, lambda folder: qwen2.save(model, folder, tokens), notes=notes)


def fixed_errors(trainer: Trainer, prompts: Prompts) -> dict[str, str]:
    """The wrong answer that is always accepted, by the text of its prompt.

    A simulated verifier errs systematically. The answer is the one that the base policy gives most
    often, because an error matters only where the policy finds it. Prompts to which it gives no
    wrong answer have no error.

    Args:
        trainer: with the base policy, before its first step.
        prompts: the training set; a fraction `rewards.false_accepts_fixed` of it has errors, the
            same for every method with the seed of the trainer's cell.
    """
    fraction, seed = trainer.config.rewards.false_accepts_fixed, trainer.cell.seed
    count = len(prompts.tokens)
    drawn = torch.randperm(count, generator=generator_of("fixed errors", seed)).tolist()
    chosen = prompts.of(sorted(drawn[: round(fraction * count)]))
    tokens, correct = verified_samples(trainer, chosen, _SAMPLES, "fixed errors")
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for place, text in enumerate(texts_of(tokens, trainer.tokenizer)):
        if not correct[place] and (answer := last_box(text)) is not None:
            wrong[chosen.questions[place // _SAMPLES]][answer] += 1
    return {question: answers.most_common(1)[0][0] for question, answers in wrong.items()}
