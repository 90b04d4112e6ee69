"""Sampling with a key-value cache, for the models of `rspo.policies.qwen2`.

For the models of the tiny scale, it is about 1.7 times as fast as transformers' `generate` on one
CPU core (benchmarks/results.md).

Unlike vLLM, it has no paging, continuous batching or top-p. It is fast on a CPU because buffers
have fixed sizes, because responses that have ended leave the batch, and because responses with the
same tokens so far share one row of the batch (a node of the prefix tree). A trained policy's
responses to a prompt have few different beginnings.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rspo.config.schema import LocalSettings, Sampling
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of, seed_of
from rspo.policies.device import pass_limits, place_for
from rspo.policies.qwen2 import (
    Qwen2,
    StaticKVCache,
    load,
    padded_on_the_left,
    read_prompts,
)
from rspo.policies.responses import Block, Question
from rspo.policies.tokenizer import ChatTokenizer

# With 32 samples of each problem, a batch has 1,024 rows, which keep one core busy.
PROBLEMS_PER_BATCH = 32
# Responses in a batch of a published model, whose cache takes a megabyte for each.
RESPONSES_PER_BATCH = 512


@dataclass(frozen=True)
class Responses:
    """n responses to each of P prompts; row prompt * n + sample has one response.

    tokens: (P*n, T) ids, padded after the end token.
    lengths: (P*n,) tokens of each response, including its end token.
    finished: (P*n,) whether the response has an end token.
    log_probs: (P*n, T) natural logarithms of the probabilities with which the tokens were sampled,
        0 at padding.
    entropy: (P*n, T) entropy of the sampling distribution at each position, in nats, 0 at padding.
    """

    tokens: Tensor
    lengths: Tensor
    finished: Tensor
    log_probs: Tensor
    entropy: Tensor

    @property
    def mask(self) -> Tensor:
        """(P*n, T) bool: true at the tokens of a response, false at padding."""
        positions = torch.arange(self.tokens.shape[1], device=self.lengths.device)
        return positions < self.lengths[:, None]


@torch.inference_mode()
def sample(
    model: Qwen2,
    prompts: Sequence[Sequence[int]],
    n: int,
    *,
    max_tokens: int,
    end: int | Sequence[int],
    pad: int,
    generator: torch.Generator | Sequence[torch.Generator],
    temperature: float = 1.0,
    multiple: int = 1,
) -> Responses:
    """Sample n responses to every prompt.

    Args:
        prompts: token ids. Prompts that are shorter than the longest one are padded.
        max_tokens: maximum length of a response, including its end token.
        end: id of the token that ends a response, or ids of several such tokens.
        pad: id that fills `tokens` after the end.
        generator: the only source of randomness. With one generator per response, the tokens of a
            response do not depend on which other responses are sampled with it, except by rounding
            (see `multiple`).
        temperature: divides the logits.
        multiple: pad batches to a multiple of this number of rows. For small matrices, and for the
            last rows of larger ones, CPU libraries add the products in a different order than for
            other rows, so the rounding of a row can depend on the number of rows.

    Returns: the responses, on the device of the model.

    Raises: InputError for prompts that are too long for the model's context.
    """
    device = model.device
    model = model.for_sampling()
    ends = torch.tensor([end] if isinstance(end, int) else list(end), device=device)
    capacity = max(map(len, prompts)) + max_tokens
    context = model.config.max_position_embeddings
    if capacity > context:
        raise InputError(f"prompt and response need {capacity} tokens, the model has {context}")
    # Each prompt is computed once. The static cache has a row for each node of the prefix tree; at
    # first, these are the prompts.
    prompt_tokens, padding = padded_on_the_left(prompts, pad, device)
    last, prompt_cache = read_prompts(model, prompt_tokens, padding)
    hidden = last[:, 0]
    cache = StaticKVCache(prompt_cache, torch.arange(len(prompts), device=device), capacity)
    rows = len(prompts) * n
    vocabulary = model.config.vocab_size
    # Draw all random numbers in advance, (max_tokens, rows), so that a response that ends does not
    # change the numbers of other responses. They are drawn on the CPU, so that they are the same on
    # every device.
    if isinstance(generator, torch.Generator):
        noise = torch.rand(max_tokens, rows, generator=generator, device="cpu")
    else:
        streams = [torch.rand(max_tokens, generator=one, device="cpu") for one in generator]
        noise = torch.stack(streams, dim=1)
    noise = noise.to(device)
    tokens = torch.full((rows, max_tokens), pad, device=device)
    log_probs = torch.zeros(rows, max_tokens, device=device)
    entropy = torch.zeros(rows, max_tokens, device=device)
    lengths_so_far = torch.zeros(rows, dtype=torch.long, device=device)

    running = torch.arange(rows, device=device)  # responses without an end token
    node_of = running // n  # for each of these responses, its row of the batch
    for step in range(max_tokens):
        chosen, log_p, entropy_of_node = draw(
            model, hidden, node_of, noise[step, running], temperature
        )
        tokens[running, step] = chosen
        log_probs[running, step] = log_p
        entropy[running, step] = entropy_of_node[node_of]
        lengths_so_far[running] += 1
        unfinished = ~torch.isin(chosen, ends)
        running = running[unfinished]
        if len(running) == 0 or step == max_tokens - 1:
            break
        # Each different pair of a node and a token is a node of the next step. It is encoded as the
        # number node * vocabulary + token.
        pairs = node_of[unfinished] * vocabulary + chosen[unfinished]
        children, node_of = torch.unique(pairs, return_inverse=True)
        # Copies of the first child fill the batch up to a multiple of `multiple`.
        children = torch.cat((children, children[:1].expand(-len(children) % multiple)))
        cache.select(children // vocabulary)
        hidden = model((children % vocabulary)[:, None], cache)[:, -1]

    last = tokens.gather(1, lengths_so_far[:, None] - 1)[:, 0]
    return Responses(tokens, lengths_so_far, torch.isin(last, ends), log_probs, entropy)


def draw(
    model: Qwen2, hidden: Tensor, node_of: Tensor, noise: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw the next token of each response, from one distribution for each node.

    Args:
        hidden: (nodes, hidden) hidden states.
        node_of: (responses,) the node of each response.
        noise: (responses,) uniform random numbers in [0, 1).

    Returns: the token of each response, (responses,); the natural logarithm of its probability,
        (responses,); and the entropy of each node's distribution in nats, (nodes,).
    """
    limit = pass_limits(model.device).logits
    at_once = max(1, limit // model.config.vocab_size)  # nodes, or responses
    chosen = torch.empty_like(node_of)
    log_probs = torch.empty_like(noise)
    entropies = []
    first = 0
    for part in hidden.split(at_once):
        log_p = torch.log_softmax(model.logits(part) / temperature, dim=-1)
        entropies.append(-(log_p.exp() * log_p).sum(dim=-1))
        (here,) = torch.where((node_of >= first) & (node_of < first + len(part)))
        for responses in here.split(at_once):
            nodes = node_of[responses] - first
            tokens = draw_tokens(log_p, nodes, noise[responses])
            chosen[responses] = tokens
            log_probs[responses] = log_p[nodes, tokens]
        first += len(part)
    return chosen, log_probs, torch.cat(entropies)


def draw_tokens(log_p: Tensor, node_of: Tensor, noise: Tensor) -> Tensor:
    """One token per response, by inverse transform sampling.

    Args:
        log_p: (nodes, vocabulary) log-probabilities of the next token.
        node_of: (responses,) the node of each response.
        noise: (responses,) uniform random numbers in [0, 1).

    Returns: (responses,) token ids.
    """
    cumulative = log_p.exp().cumsum(dim=-1)[node_of]
    # The token is the first whose cumulative probability exceeds the noise. Its id is the number of
    # tokens whose cumulative probability does not. Rounding can leave the last cumulative sum below
    # 1, so the noise is scaled by that sum. The clamp is only a safeguard: the noise is below 1, so
    # the last sum exceeds the scaled noise.
    below = (cumulative <= noise[:, None] * cumulative[:, -1:]).sum(dim=-1)
    return below.clamp(max=log_p.shape[-1] - 1)


class TorchSampler:
    """`sampler: torch`: samples in this process, without vLLM.

    gpus: number of GPUs that it uses.
    place: the device and the data type.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: ChatTokenizer,
        sampling: Sampling,
        settings: LocalSettings | None = None,
    ) -> None:
        self.place = place_for(tokenizer, settings or LocalSettings())
        self.gpus = int(self.place.device.type == "cuda")
        # Of a published model, the copy for sampling is made once for all batches.
        self.model = self.place.put(load(folder)).for_sampling()
        self.tokenizer = tokenizer
        self.sampling = sampling

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Batches of consecutive questions whose responses have the same maximum length."""
        size = PROBLEMS_PER_BATCH
        if not self.tokenizer.is_tiny:
            size = max(1, min(size, RESPONSES_PER_BATCH // block.size))
        indices = range(len(questions))
        runs = itertools.groupby(indices, key=lambda index: questions[index].max_tokens)
        batches = []
        for _, run in runs:
            alike = list(run)
            for first in range(0, len(alike), size):
                batches.append(alike[first : first + size])
        return batches

    def draw(
        self, questions: Sequence[Question], batch: list[int], block: Block
    ) -> tuple[list[list[int]], int]:
        """Sample with one stream of random numbers for the batch.

        The stream does not depend on the policy, so policies are compared under the same random
        numbers.

        Returns: the tokens of each response and the seed, as `Sampler.draw`.
        """
        stream = block.stream + (batch[0],)
        if block.number:  # the first block has the stream of an evaluation without blocks
            stream += (block.number,)
        # The maximum length is the same in the whole batch.
        drawn = sample(
            self.model,
            [questions[index].prompt for index in batch],
            block.size,
            max_tokens=questions[batch[0]].max_tokens,
            end=self.tokenizer.ends,
            pad=self.tokenizer.pad,
            generator=generator_of(*stream),
            temperature=self.sampling.temperature,
        )
        rows = zip(drawn.tokens.tolist(), drawn.lengths.tolist(), strict=True)
        return [tokens[:length] for tokens, length in rows], seed_of(*stream)
