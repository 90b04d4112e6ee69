"""Sampling with a key-value cache, for models in one process.

Unlike vLLM, it has no paging, continuous batching or top-p. It is fast on a CPU because each prompt
is computed once for all its samples, buffers have fixed sizes, and finished rows leave the batch
once they are a quarter of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rspo.core.errors import InputError
from rspo.policies.qwen2 import KVCache, Qwen2, StaticKVCache


@dataclass(frozen=True)
class Responses:
    """n responses to each of P prompts, rows in prompt order (row = prompt * n + sample).

    tokens: (P*n, T) ids, padded after the end token.
    lengths: (P*n,) tokens of each response, including its end token.
    finished: (P*n,) whether the response has an end token.
    log_probs: (P*n, T) of the sampled tokens under the sampling distribution, 0 at padding.
    entropy: (P*n, T) of the sampling distribution at each position, in nats, 0 at padding.
    """

    tokens: Tensor
    lengths: Tensor
    finished: Tensor
    log_probs: Tensor
    entropy: Tensor

    @property
    def mask(self) -> Tensor:
        """(P*n, T) bool, true at tokens and false at padding."""
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
    """Sample n responses to every prompt.

    Args:
        prompts: token ids, all of the same length.
        max_tokens: maximum length of a response, including its end token.
        end, pad: token ids.
        generator: on the CPU; the only source of randomness. With one generator per response,
            responses are independent of each other up to rounding, see `least_rows`.
        least_rows: keep finished rows in batches that would become smaller than this. CPUs sum
            products of small matrices in another order, so the rounding of a row can depend on
            the number of rows.

    Raises: InputError for prompts of different lengths, or if prompt and response exceed the
        model's maximum length.
    """
    lengths = {len(prompt) for prompt in prompts}
    if len(lengths) != 1:
        raise InputError(
            f"prompts of one batch must have the same number of tokens, got {sorted(lengths)}"
        )
    capacity = lengths.pop() + max_tokens
    context = model.config.max_position_embeddings
    if capacity > context:
        raise InputError(f"prompt and response need {capacity} tokens, the model has {context}")
    device = model.cos.device
    prompt_cache = KVCache()
    hidden = model(torch.tensor(prompts, device=device), prompt_cache)[:, -1]
    rows = len(prompts) * n
    # Drawn in advance, so that removing rows does not change the other rows' random numbers.
    noise = _noise(max_tokens, rows, generator).to(device)
    tokens = torch.full((rows, max_tokens), pad, device=device)
    log_probs = torch.zeros(rows, max_tokens, device=device)
    entropy = torch.zeros(rows, max_tokens, device=device)
    lengths_so_far = torch.zeros(rows, dtype=torch.long, device=device)

    prompt_of = torch.arange(len(prompts), device=device).repeat_interleave(n)
    cache = StaticKVCache(prompt_cache, prompt_of, capacity)
    hidden = hidden[prompt_of]
    active = torch.arange(rows, device=device)  # rows in the cache
    running = torch.ones(rows, dtype=torch.bool, device=device)  # which of them have not ended
    for step in range(max_tokens):
        log_p = torch.log_softmax(model.logits(hidden) / temperature, dim=-1)
        chosen, chosen_log_p = _draw(log_p, noise[step, active])
        current = active[running]
        tokens[current, step] = chosen[running]
        log_probs[current, step] = chosen_log_p[running]
        entropy[current, step] = -(log_p.exp() * log_p).sum(dim=-1)[running]
        lengths_so_far[current] += 1
        running = running & (chosen != end)
        remaining = int(running.sum())
        if remaining == 0 or step == max_tokens - 1:
            break
        if remaining < 0.75 * len(active) and len(active) > least_rows:
            running_first = torch.sort(running, stable=True, descending=True).indices
            kept = running_first[: max(remaining, least_rows)]
            cache.keep(kept)
            active, chosen, running = active[kept], chosen[kept], running[kept]
        hidden = model(chosen[:, None], cache)[:, -1]

    last = tokens.gather(1, lengths_so_far[:, None] - 1)[:, 0]
    return Responses(tokens, lengths_so_far, last == end, log_probs, entropy)


def _noise(
    max_tokens: int, rows: int, generator: torch.Generator | Sequence[torch.Generator]
) -> Tensor:
    """Uniform random numbers, (max_tokens, rows)."""
    if isinstance(generator, torch.Generator):
        return torch.rand(max_tokens, rows, generator=generator)
    return torch.stack([torch.rand(max_tokens, generator=own) for own in generator], dim=1)


def _draw(log_p: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """One token per row, by inverse transform sampling; with its log-probability.

    log_p (rows, vocabulary), noise (rows,) -> tokens (rows,), log-probabilities (rows,).
    """
    cumulative = log_p.exp().cumsum(dim=-1)
    # Rounding can leave the last sum below 1, so scale the noise by it.
    below = (cumulative <= noise[:, None] * cumulative[:, -1:]).sum(dim=-1, keepdim=True)
    chosen = below.clamp(max=log_p.shape[-1] - 1)
    return chosen[:, 0], log_p.gather(-1, chosen)[:, 0]
