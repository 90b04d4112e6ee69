"""Sampling with a key-value cache on the CPU, for the tiny models of `rspo.policies.qwen2`.

For models this small, it is about 1.7 times as fast as transformers' `generate` on one CPU core
(benchmarks/results.md).

Unlike vLLM, it has no paging, continuous batching or top-p. It is fast on a CPU because buffers
have fixed sizes, and because responses with the same tokens so far share one row of the batch (a
node of the prefix tree). A trained policy's responses to a prompt have few different beginnings.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rspo.config.schema import Sampling
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of, seed_of
from rspo.policies.qwen2 import LAST, KVCache, Qwen2, StaticKVCache, load
from rspo.policies.responses import Block, Question
from rspo.policies.tokenizer import ChatTokenizer

# With 32 samples of each problem, a batch has 1,024 rows, which keep one core busy.
PROBLEMS_PER_BATCH = 32


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
        return torch.arange(self.tokens.shape[1]) < self.lengths[:, None]


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
    multiple: int = 1,
) -> Responses:
    """Sample n responses to every prompt.

    Args:
        prompts: token ids, all of the same length.
        max_tokens: maximum length of a response, including its end token.
        end: id of the token that ends a response.
        pad: id that fills `tokens` after the end.
        generator: the only source of randomness. With one generator per response, the tokens of a
            response do not depend on which other responses are sampled with it, except by rounding
            (see `multiple`).
        temperature: divides the logits.
        multiple: pad batches to a multiple of this number of rows. For small matrices, and for the
            last rows of larger ones, CPU libraries add the products in a different order than for
            other rows, so the rounding of a row can depend on the number of rows.

    Raises: InputError for prompts of different lengths, or longer than the model's context.
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
    # Each prompt is computed once. The static cache has a row for each node of the prefix tree; at
    # first, these are the prompts.
    prompt_cache = KVCache()
    hidden = model(torch.tensor(prompts), prompt_cache, LAST)[:, 0]
    cache = StaticKVCache(prompt_cache, torch.arange(len(prompts)), capacity)
    rows = len(prompts) * n
    # Draw all random numbers in advance, (max_tokens, rows), so that a response that ends does not
    # change the numbers of other responses.
    if isinstance(generator, torch.Generator):
        noise = torch.rand(max_tokens, rows, generator=generator)
    else:
        noise = torch.stack(
            [torch.rand(max_tokens, generator=stream) for stream in generator], dim=1
        )
    tokens = torch.full((rows, max_tokens), pad)
    log_probs = torch.zeros(rows, max_tokens)
    entropy = torch.zeros(rows, max_tokens)
    lengths_so_far = torch.zeros(rows, dtype=torch.long)

    running = torch.arange(rows)  # responses without an end token
    node_of = running // n  # for each of these responses, its row of the batch
    for step in range(max_tokens):
        log_p = torch.log_softmax(model.logits(hidden) / temperature, dim=-1)
        chosen = draw_tokens(log_p, node_of, noise[step, running])
        tokens[running, step] = chosen
        log_probs[running, step] = log_p[node_of, chosen]
        entropy[running, step] = -(log_p.exp() * log_p).sum(dim=-1)[node_of]
        lengths_so_far[running] += 1
        unfinished = chosen != end
        running = running[unfinished]
        if len(running) == 0 or step == max_tokens - 1:
            break
        # Each different pair of a node and a token is a node of the next step. It is encoded as the
        # number node * vocabulary + token.
        pairs = node_of[unfinished] * log_p.shape[1] + chosen[unfinished]
        children, node_of = torch.unique(pairs, return_inverse=True)
        # Copies of the first child fill the batch up to a multiple of `multiple`.
        children = torch.cat((children, children[:1].expand(-len(children) % multiple)))
        cache.select(children // log_p.shape[1])
        hidden = model((children % log_p.shape[1])[:, None], cache)[:, -1]

    last = tokens.gather(1, lengths_so_far[:, None] - 1)[:, 0]
    return Responses(tokens, lengths_so_far, last == end, log_probs, entropy)


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
    """`sampler: torch`: samples from tiny policies in this process, without vLLM."""

    gpus = 0

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        self.model = load(folder)
        self.tokenizer = tokenizer
        self.sampling = sampling

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Batches of consecutive questions with prompts of equal length, as `sample` requires."""
        indices = range(len(questions))
        runs = itertools.groupby(indices, key=lambda index: len(questions[index].prompt))
        batches = []
        for _, run in runs:
            alike = list(run)
            for first in range(0, len(alike), PROBLEMS_PER_BATCH):
                batches.append(alike[first : first + PROBLEMS_PER_BATCH])
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
        # `max_tokens` follows from the length of the prompt, which is the same in the whole batch.
        drawn = sample(
            self.model,
            [questions[index].prompt for index in batch],
            block.size,
            max_tokens=questions[batch[0]].max_tokens,
            end=self.tokenizer.end,
            pad=self.tokenizer.pad,
            generator=generator_of(*stream),
            temperature=self.sampling.temperature,
        )
        rows = zip(drawn.tokens.tolist(), drawn.lengths.tolist(), strict=True)
        return [tokens[:length] for tokens, length in rows], seed_of(*stream)
