"""Base policies: trained from scratch, or published, with a supervised start where configured."""

import itertools
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.config.schema import Sampling, Scratch
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.datasets.generated import worked_examples
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.run import run
from rspo.pipeline.state import Condition, state
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
        model: its name in the config; with `base_per_seed`, also MODEL--sSEED.
        mirror: folder to use instead of the Hugging Face hub.
        force: replace a finished base policy.

    Raises: InputError for a model that the config lacks.
    """
    _, source = experiment.pretrained(model)
    config = experiment.config
    task = tasks.pretrain(experiment, model)
    (policy,) = task.outputs
    checkpoint = experiment.files.checkpoint(policy.parent.name)

    def work() -> Done:
        earlier = use_checkpoint(task, {}, force)
        notes: dict[str, Any] = {}
        gpu_seconds = 0.0
        with atomic_write(policy) as partial:
            # Copy a finished policy with the same settings if there is one. Without it, train a
            # model from scratch, or download a published one.
            finished = _finished_elsewhere(experiment, model)
            if finished is not None:
                shutil.copytree(finished, partial, ignore=shutil.ignore_patterns(".*"))
                note = read_provenance(finished)
                origin = note["notes"]["sources"][0]
                notes["copied"] = note["notes"].get("copied") or _made(finished, note)
            elif source.scratch is not None:
                _train(source.scratch, config.sampling, checkpoint, partial)
                origin = f"generated/worked examples @ seed {source.scratch.seed}"
            else:
                assert source.hub is not None  # one of the two, by the config's check
                origin = fetch_model(source.hub, partial, mirror)
                if config.engine == "local" or config.sampler == "torch":
                    # This refuses a model now, and not when a cell starts.
                    qwen2.read_config(partial, source.hub.id)
                if source.start is not None:
                    started = time.monotonic()
                    notes = train_start(experiment, source.start, checkpoint, partial)
                    if notes["device"] == "cuda":
                        gpu_seconds = time.monotonic() - started
        return Done(
            gpu_seconds=gpu_seconds,
            notes={"sources": [origin]} | notes,
            earlier=earlier,
            clean_up=lambda: remove_checkpoint(checkpoint),
        )

    run(task, work, force)
    remove_left_checkpoint(task)


def _finished_elsewhere(experiment: Experiment, model: str) -> Path | None:
    """The finished base policy that can be copied instead of being trained.

    Returns: the one among the results of the scale, for a trial run, whose results are in another
        folder; otherwise the one in the folder that the config names in `base_policies`. None if
        there is none with the settings of this experiment.
    """
    if experiment.files.are_elsewhere:
        files = Files.of_scale(experiment.scale, experiment.root)
        task = tasks.pretrain(replace(experiment, files=files), model)
        if state(task, deep=True).is_current:
            return task.outputs[0]
    if experiment.config.base_policies is None:
        return None
    return _shipped(experiment, model, experiment.root / experiment.config.base_policies)


def _made(policy: Path, note: Mapping[str, Any]) -> dict[str, str]:
    """Where a base policy is, and when and by what code it was trained, from its provenance."""
    made = {"from": str(policy)}
    for name in ("git_commit", "written", "host"):
        made[name] = note[name]
    return made


def _shipped(experiment: Experiment, model: str, folder: Path) -> Path | None:
    """The base policy in a folder of results that comes with the config.

    Returns: None if the folder has none of this model, and None after a note if there is no such
        folder, or its base policy has other settings than this experiment.

    Raises: InputError if it is damaged, or nothing tells its settings.
    """
    files = Files(folder, folder / "reports")
    task = tasks.pretrain(replace(experiment, files=files), model)
    found = state(task, deep=True)
    if found.is_current:
        return task.outputs[0]
    if found.condition not in (Condition.STALE, Condition.MISSING):
        raise InputError(f"{found}; without the key base_policies, the base policy is trained")
    if found.condition is Condition.STALE:
        print(f"{found}; the base policy is trained", flush=True)
    elif not folder.is_dir():
        print(f"{folder}: no such folder (base_policies); the base policy is trained", flush=True)
    return None


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
