"""Supervised training on worked examples: of models from scratch, and as the start of others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from rspo.policies.qwen2 import Qwen2, response_logits
from rspo.training.checkpoint import load_checkpoint, save_checkpoint
from rspo.training.progress import Progress

FINAL_RATE = 0.05  # learning rate at the end of the cosine, divided by its peak
CHECKPOINT_EVERY = 100
CHUNKS = 2  # parts of a batch, by length: the part with the shorter responses needs less padding
IGNORED = -100  # target of positions that the loss leaves out; PyTorch's default `ignore_index`


@dataclass(frozen=True)
class Examples:
    """E worked examples as token ids, on the device of the model.

    prompts: (E, L).
    responses: (E, T); each ends with its end token, and IGNORED fills it up to the length T of the
        longest.
    padding: (E,) the number of padding tokens at the beginning of each prompt; None if there are
        none.
    """

    prompts: Tensor
    responses: Tensor
    padding: Tensor | None = None

    def select(self, rows: Tensor) -> "Examples":
        """The examples of some rows, in this order."""
        padding = None if self.padding is None else self.padding[rows]
        return Examples(self.prompts[rows], self.responses[rows], padding)


def padded_responses(responses: Sequence[Sequence[int]], end: int, device: torch.device) -> Tensor:
    """Token ids of responses with their end token, filled up with IGNORED: (E, T)."""
    longest = max(map(len, responses)) + 1
    padded = [list(ids) + [end] + [IGNORED] * (longest - len(ids) - 1) for ids in responses]
    return torch.tensor(padded, device=device)


def fit(
    model: Qwen2,
    examples: Examples,
    batches: Sequence[Tensor],
    learning_rate: float,
    warmup: int,
    checkpoint: Path,
) -> None:
    """Train a model with AdamW, one update for each batch, from its checkpoint if there is one.

    Args:
        batches: rows of the examples of each update, of those too that the checkpoint has.
        learning_rate: the peak.
        warmup: the number of updates before the peak.
    """
    steps = len(batches)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    start = load_checkpoint(checkpoint, model, optimizer).get("step", 0)
    if start:
        print(f"the base policy resumes from step {start} of {steps}", flush=True)
    progress = Progress(checkpoint, start, steps)
    for step in range(start, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * rate_factor(step, steps, warmup)
        optimizer.zero_grad()
        loss = backward(model, examples.select(batches[step]))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress.report(step + 1, {"loss": loss})
        if (step + 1) % CHECKPOINT_EVERY == 0:
            save_checkpoint(checkpoint, model, optimizer, {"step": step + 1})


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """Learning rate divided by its peak: linear warm-up, then a cosine down to FINAL_RATE."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * done))


def backward(model: Qwen2, examples: Examples) -> float:
    """Add the gradient of the mean cross-entropy of the response tokens, and return this mean.

    Prompt tokens are not part of the mean.
    """
    lengths = (examples.responses != IGNORED).sum(dim=1)
    loss = 0.0
    for rows in torch.argsort(lengths, stable=True).chunk(CHUNKS):
        part = examples.select(rows)
        targets = part.responses[:, : int(lengths[rows].max())]
        prompt_of = torch.arange(len(rows), device=rows.device)  # each has its own prompt
        # IGNORED is no token: the model gets token 0 in its place, and the loss leaves it out.
        inputs = targets.clamp(min=0)
        logits = response_logits(model, part.prompts, prompt_of, inputs, part.padding)
        total = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        mean = total / lengths.sum()
        mean.backward()
        loss += mean.item()
    return loss
