"""Sampling with a key-value cache, for models in one process.

Left out against vLLM: paging, continuous batching, top-p. What makes it quick on a CPU: a prompt
is read once for all its samples, buffers have fixed sizes, and finished rows are left out as soon
as they are a quarter of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rspo.core.errors import InputError
from rspo.policies.qwen2 import DecodingMemory, Memory, Qwen2


@dataclass(frozen=True)
class Responses:
    """n responses to each of P prompts, rows in prompt order (row = prompt * n + sample).

    tokens: (P*n, T) ids, padded behind the end token.
    lengths: (P*n,) tokens of each response, its end token included.
    finished: (P*n,) whether the response ended by itself.
    log_probs: (P*n, T) of the sampled tokens under the sampling distribution, 0 in the padding.
    entropy: (P*n, T) of the distributions that the tokens were drawn from, nats, 0 in the padding.
    """

    tokens: Tensor
    lengths: Tensor
    finished: Tensor
    log_probs: Tensor
    entropy: Tensor

    @property
    def mask(self) -> Tensor:
        """(P*n, T) bool: which positions hold a token of the response."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) < self.lengths[:, None]


@torch.inference_mode()
def sample(
    model: Qwen2,
    prompts: Sequence[Sequence[int]],
    n: int,
    *,
    max_tokens: int,
    end: int,
    pad: int,
    generator: torch.Generator | Sequence[torch.Generator],
    temperature: float = 1.0,
    least_rows: int = 1,
) -> Responses:
    """Draw n responses to every prompt.

    Args:
        prompts: token ids; all equally long.
        max_tokens: longest response, its end token included.
        end, pad: token ids.
        generator: on the CPU; the only source of randomness. One of each response's own makes it
            independent of the others, but for rounding, see `least_rows`.
        least_rows: finished rows stay in the batch below so many. CPUs add up products of small
            matrices in another order, so a row's last digit can depend on the number of rows.

    Raises: InputError for prompts of different lengths, or too long for the model.
    """
    lengths = {len(prompt) for prompt in prompts}
    if len(lengths) != 1:
        raise InputError(
            f"prompts of one batch must be equally long in tokens, got {sorted(lengths)}"
        )
    capacity = lengths.pop() + max_tokens
    if capacity > model.shape.context:
        raise InputError(
            f"prompt and response need {capacity} tokens, the model has {model.shape.context}"
        )
    device = model.cos.device
    memory = Memory()
    hidden = model(torch.tensor(prompts, device=device), memory)[:, -1]
    rows = len(prompts) * n
    # All randomness is drawn at once, so that leaving rows out changes no other row's numbers.
    noise = _noise(max_tokens, rows, generator).to(device)
    tokens = torch.full((rows, max_tokens), pad, device=device)
    log_probs = torch.zeros(rows, max_tokens, device=device)
    entropy = torch.zeros(rows, max_tokens, device=device)
    lengths_so_far = torch.zeros(rows, dtype=torch.long, device=device)

    prompt_of = torch.arange(len(prompts), device=device).repeat_interleave(n)
    decoding = DecodingMemory(memory, prompt_of, capacity)
    hidden = hidden[prompt_of]
    active = torch.arange(rows, device=device)  # rows in the buffers
    running = torch.ones(rows, dtype=torch.bool, device=device)  # of those, not yet ended
    for step in range(max_tokens):
        log_p = torch.log_softmax(model.logits(hidden) / temperature, dim=-1)
        chosen, chosen_log_p = _draw(log_p, noise[step, active])
        here = active[running]
        tokens[here, step] = chosen[running]
        log_probs[here, step] = chosen_log_p[running]
        entropy[here, step] = -(log_p.exp() * log_p).sum(dim=-1)[running]
        lengths_so_far[here] += 1
        running = running & (chosen != end)
        left = int(running.sum())
        if left == 0 or step == max_tokens - 1:
            break
        if left < 0.75 * len(active) and len(active) > least_rows:
            kept = torch.sort(running, stable=True, descending=True).indices[
                : max(left, least_rows)
            ]
            decoding.keep(kept)
            active, chosen, running = active[kept], chosen[kept], running[kept]
        hidden = model(chosen[:, None], decoding)[:, -1]

    last = tokens.gather(1, lengths_so_far[:, None] - 1)[:, 0]
    return Responses(tokens, lengths_so_far, last == end, log_probs, entropy)


def _noise(
    max_tokens: int, rows: int, generator: torch.Generator | Sequence[torch.Generator]
) -> Tensor:
    """Uniform numbers (max_tokens, rows)."""
    if isinstance(generator, torch.Generator):
        return torch.rand(max_tokens, rows, generator=generator)
    return torch.stack([torch.rand(max_tokens, generator=own) for own in generator], dim=1)


def _draw(log_p: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """One token a row: the first whose cumulative probability exceeds uniform noise."""
    cumulative = log_p.exp().cumsum(dim=-1)
    # Rounding can leave the last sum a little below 1; scaled noise stays within it.
    below = (cumulative <= noise[:, None] * cumulative[:, -1:]).sum(dim=-1, keepdim=True)
    chosen = below.clamp(max=log_p.shape[-1] - 1)
    return chosen[:, 0], log_p.gather(-1, chosen)[:, 0]
