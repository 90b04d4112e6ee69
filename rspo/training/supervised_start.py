"""The supervised start of a published model: a short training on worked examples.

A small model answers few questions in the form that is asked for. The start teaches the form, so
that reinforcement learning begins with a policy that is sometimes right. All methods begin with the
same base policy, which `rspo pretrain` writes.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rspo.config.experiment import Experiment
from rspo.config.names import REASONING_GYM
from rspo.config.schema import Start
from rspo.datasets.reasoning_gym import digest_of, worked_examples
from rspo.policies import qwen2
from rspo.policies.device import place_for
from rspo.policies.qwen2 import padded_on_the_left
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.supervised import Examples, fit, padded_responses


def train_start(
    experiment: Experiment, start: Start, checkpoint: Path, folder: Path
) -> dict[str, Any]:
    """Train the model of a folder on the worked examples of its start, and replace its weights.

    Returns: notes for the provenance: the package, the number of examples and updates, the SHA-256
        of the examples, and the device and data type.
    """
    tokenizer = ChatTokenizer(folder)
    pairs = worked_examples(experiment, start)
    place = place_for(tokenizer, experiment.config.local)
    model = place.put(qwen2.load(folder))
    batches = list(_batches(len(pairs), start))
    examples = _encode(tokenizer, pairs, model.device)
    fit(model, examples, batches, start.learning_rate, len(batches) // 10, checkpoint)
    for file in folder.glob("*.safetensors*"):  # the published weights may have several files
        file.unlink()
    qwen2.save_weights(model, folder)
    made_of = {
        "reasoning_gym": REASONING_GYM,
        "examples": len(pairs),
        "updates": len(batches),
        "content_sha256": digest_of(pairs),
    }
    return {"start": made_of} | place.note


def _encode(
    tokenizer: ChatTokenizer, pairs: list[tuple[str, str]], device: torch.device
) -> Examples:
    """The token ids of pairs of a question and an answer; the answer is the whole response."""
    chats = [[{"role": "user", "content": question}] for question, _ in pairs]
    prompts, padding = padded_on_the_left(tokenizer.prompts(chats), tokenizer.pad, device)
    answers = tokenizer.encode([answer for _, answer in pairs])
    return Examples(prompts, padded_responses(answers, tokenizer.end, device), padding)


def _batches(count: int, start: Start) -> Iterator[Tensor]:
    """Rows of each batch; every epoch has a new order, in which the last batch may be smaller."""
    order = torch.Generator().manual_seed(start.seed)
    for _ in itertools.repeat(None, start.epochs):
        yield from torch.randperm(count, generator=order).split(start.batch)
