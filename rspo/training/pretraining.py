"""Base policies: trained from scratch, or published, with a supervised start where configured."""

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rspo.config.experiment import Experiment, base_name
from rspo.config.files import Files
from rspo.config.schema import Sampling, Scratch
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.datasets.generated import worked_examples
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.run import run
from rspo.pipeline.state import state
from rspo.pipeline.task import Done
from rspo.policies import qwen2
from rspo.policies.published import fetch_model
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.training.checkpoint import (
    remove_checkpoint,
    remove_left_checkpoint,
    use_checkpoint,
)
from rspo.training.supervised import Examples, fit, padded_responses
from rspo.training.supervised_start import train_start

WARMUP_STEPS = 50


def make_base_policy(
    experiment: Experiment, model: str, mirror: Path | None = None, force: bool = False
) -> None:
    """Write the base policy of a model as a Hugging Face folder.

    Args:
        mirror: folder to use instead of the Hugging Face hub.
        force: replace a finished base policy.

    Raises: InputError for a model that the config lacks.
    """
    experiment.require_name("model", model, experiment.config.models)
    config = experiment.config
    source = config.models[model]
    checkpoint = experiment.files.checkpoint(base_name(model))
    task = tasks.pretrain(experiment, model)
    (policy,) = task.outputs

    def work() -> Done:
        earlier = use_checkpoint(task, {}, force)
        notes: dict[str, Any] = {}
        with atomic_write(policy) as partial:
            # Copy the finished policy of the scale if this is a trial run and there is one. Without
            # it, train a model from scratch, or download a published one.
            finished = _finished_elsewhere(experiment, model)
            if finished is not None:
                shutil.copytree(finished, partial, ignore=shutil.ignore_patterns(".*"))
                origin = read_provenance(finished)["notes"]["sources"][0]
            elif source.scratch is not None:
                _train(source.scratch, config.sampling, checkpoint, partial)
                origin = f"generated/worked examples @ seed {source.scratch.seed}"
            else:
                assert source.hub is not None  # one of the two, by the config's check
                origin = fetch_model(source.hub, partial, mirror)
                if config.engine == "local" or config.sampler == "torch":
                    qwen2.read_config(partial)  # refuses a model now, and not when a cell starts
                if source.start is not None:
                    notes = train_start(experiment, source.start, checkpoint, partial)
        return Done(
            notes={"sources": [origin]} | notes,
            earlier=earlier,
            clean_up=lambda: remove_checkpoint(checkpoint),
        )

    run(task, work, force)
    remove_left_checkpoint(task)


def _finished_elsewhere(experiment: Experiment, model: str) -> Path | None:
    """The finished base policy that a trial run, whose results are in another folder, can copy.

    Returns: its folder among the results of the scale; None if it is not finished, or if the
        experiment is no trial run.
    """
    if not experiment.files.are_elsewhere:
        return None
    files = Files.of_scale(experiment.scale, experiment.root)
    task = tasks.pretrain(replace(experiment, files=files), model)
    if not state(task, deep=True).is_current:
        return None
    return task.outputs[0]


def shape_of(scratch: Scratch, sampling: Sampling, vocabulary: int) -> ModelConfig:
    """Sizes of a tiny Qwen2; its context holds the longest prompt and response."""
    return ModelConfig(
        vocab_size=vocabulary,
        hidden_size=scratch.hidden_size,
        num_hidden_layers=scratch.layers,
        num_attention_heads=scratch.heads,
        num_key_value_heads=scratch.heads,
        intermediate_size=scratch.feed_forward,
        max_position_embeddings=sampling.max_prompt_tokens + sampling.max_response_tokens,
    )


def _train(scratch: Scratch, sampling: Sampling, checkpoint: Path, folder: Path) -> None:
    """Train a randomly initialized Qwen2 on the worked examples and write it to `folder`."""
    context = sampling.max_prompt_tokens + sampling.max_response_tokens
    save_tokenizer(folder, sampling.max_prompt_tokens, context)
    tokenizer = ChatTokenizer(folder)
    examples = _encode(tokenizer, worked_examples(scratch.examples, scratch.seed))
    model = Qwen2(shape_of(scratch, sampling, tokenizer.size))
    # 0.05 is the standard deviation of the initial weights.
    model.initialise(0.05, torch.Generator().manual_seed(scratch.seed))
    # Draw the batches of all steps, even of those that are done, so that a resumed training goes on
    # in the same order.
    batches = list(itertools.islice(_batches(scratch), scratch.steps))
    fit(model, examples, batches, scratch.learning_rate, WARMUP_STEPS, checkpoint)
    qwen2.save(model, folder, {"eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad})


def _encode(tokenizer: ChatTokenizer, examples: list[tuple[str, str]]) -> Examples:
    """Token ids of worked examples, on the CPU."""
    # Most of the 60,000 examples repeat a prompt or a response, so equal texts are encoded once.
    distinct_prompts = list(dict.fromkeys(prompt for prompt, _ in examples))
    distinct_responses = list(dict.fromkeys(response for _, response in examples))
    chats = tokenizer.prompts([[{"role": "user", "content": text}] for text in distinct_prompts])
    longest = max(map(len, chats))
    # The tokenizer pads prompts to `max_prompt_tokens`, so they have equal lengths unless a prompt
    # is longer than that.
    if min(map(len, chats)) < longest:
        raise InputError(
            f"sampling.max_prompt_tokens: expected at least {longest}, for the worked examples"
        )
    prompt_ids = dict(zip(distinct_prompts, chats, strict=True))
    encoded = tokenizer.encode(distinct_responses)
    response_ids = dict(zip(distinct_responses, encoded, strict=True))
    prompts = [prompt_ids[prompt] for prompt, _ in examples]
    responses = [response_ids[response] for _, response in examples]
    padded = padded_responses(responses, tokenizer.end, torch.device("cpu"))
    return Examples(torch.tensor(prompts), padded)


def _batches(scratch: Scratch) -> Iterator[Tensor]:
    """Rows of each batch; every epoch has a new order."""
    order = torch.Generator().manual_seed(scratch.seed)
    while True:
        yield from torch.randperm(scratch.examples, generator=order).split(scratch.batch)
