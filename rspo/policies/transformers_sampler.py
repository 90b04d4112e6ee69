"""Sampling from language models of transformers, in one process on a CPU.

verl's rollout server on CPUs uses it for published models (`training/verl/cpu_server.py`).

The `generate` of transformers would process each prompt once for each response, and would go on
computing finished responses until the longest one ends. Here the longest common beginning of all
prompts is computed once, the rest of each prompt once for all its responses, and finished responses
leave the batch every few tokens.

Each response has its own random numbers, so its tokens depend on the other responses only by
rounding.
"""

from collections.abc import Sequence
from itertools import groupby, takewhile
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache, TopPLogitsWarper
from transformers.cache_utils import DynamicLayer

from rspo.core.errors import InputError
from rspo.policies.responses import Drawn
from rspo.policies.sampler import draw_tokens

ROWS = 64  # responses at a time; the cache of 64 x 200 tokens of a 135M model takes 0.6 GB
STRETCH = 8  # tokens between two removals of finished responses


class TransformersModel:
    """A model of transformers in float32 that samples responses."""

    def __init__(self, folder: Path, ends: Sequence[int]) -> None:
        """Load a model folder.

        Args:
            ends: ids of the tokens that end a response.

        Raises: InputError for a model without a cache of keys and values in each layer.
        """
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.ends = tuple(ends)
        self.pad = ends[0]
        layers = DynamicCache(config=self.model.config).layers
        for layer in layers:
            if not isinstance(layer, DynamicLayer):
                raise InputError(
                    f"{folder}: the sampler on a CPU needs a model with keys and values in each "
                    f"layer; this one has {type(layer).__name__}"
                )
        # Whether prompts of different lengths may share a batch. A layer with a sliding window,
        # which is a subclass of DynamicLayer, would count padding as part of its window.
        self.pads = all(type(layer) is DynamicLayer for layer in layers) and self._may_pad()

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Replace the weights, which have the names of transformers.

        Of the names of a tied weight, only the first one in the model is read.

        Raises: KeyError for a missing weight, ValueError for one of another shape.
        """
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.shape != weights[name].shape:
                    shapes = f"{tuple(weights[name].shape)}, expected {tuple(parameter.shape)}"
                    raise ValueError(f"{name} has the shape {shapes}")
                parameter.copy_(weights[name])

    @torch.inference_mode()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        generators: Sequence[torch.Generator],
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> list[Drawn]:
        """Sample one response to each prompt; equal prompts are computed once.

        Args:
            prompts: token ids, of any lengths.
            generators: on the CPU, one for each response.
            max_tokens: maximum length of a response, including its end token.
            temperature: divides the logits.
            top_p: samples from the likeliest tokens with this total probability.

        Returns: the responses, in the order of the prompts.
        """
        noise = torch.stack([torch.rand(max_tokens, generator=stream) for stream in generators])
        # Equal prompts, and prompts of similar length, are sampled together.
        order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row]), list(prompts[row])))
        groups = [order]
        if not self.pads:
            by_length = groupby(order, lambda row: len(prompts[row]))
            groups = [list(rows) for _, rows in by_length]
        drawn: dict[int, Drawn] = {}
        for group in groups:
            for first in range(0, len(group), ROWS):
                rows = group[first : first + ROWS]
                batch = [tuple(prompts[row]) for row in rows]
                responses = self._batch(batch, noise[rows], temperature, top_p)
                drawn.update(zip(rows, responses, strict=True))
        return [drawn[row] for row in range(len(prompts))]

    @torch.inference_mode()
    def _may_pad(self) -> bool:
        """Whether padding of a prompt leaves the probabilities of the next token the same.

        In models with ALiBi, for example, padding changes them, because positions count it.
        """
        # Two prompts with a common beginning and different lengths, with and without padding.
        prompts = [(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (0, 1, 2, 3, 4, 7)]
        ids, mask, cache = self._prompts(prompts)
        padded = self._next_logits(ids[:, -1:], mask, cache)
        unpadded = [self.model(torch.tensor([prompt])).logits[0, -1] for prompt in prompts]
        difference = torch.log_softmax(padded, -1) - torch.log_softmax(torch.stack(unpadded), -1)
        return bool(difference.abs().max() < 1e-3)

    def _batch(
        self, prompts: list[tuple[int, ...]], noise: Tensor, temperature: float, top_p: float
    ) -> list[Drawn]:
        """Sample one response to each prompt, by inverse transform sampling.

        Args:
            noise: (responses, tokens) uniform random numbers in [0, 1).
        """
        # Compute each different prompt once, and copy its row for each of its responses.
        distinct = list(dict.fromkeys(prompts))
        ids, mask, cache = self._prompts(distinct)
        prompt_of = torch.tensor([distinct.index(prompt) for prompt in prompts])
        last = ids[prompt_of, -1:]
        mask = mask[prompt_of]
        cache.batch_select_indices(prompt_of)
        tokens = torch.full(noise.shape, self.pad)
        log_probs = torch.zeros(noise.shape)
        rows = torch.arange(len(prompts))  # the response in each row of the batch
        unfinished = torch.ones(len(prompts), dtype=torch.bool)
        for step in range(noise.shape[1]):
            # Finished rows go on until the next removal; `_up_to_end` cuts off what they add.
            scores = self._next_logits(last, mask, cache).float() / temperature
            if top_p < 1:
                scores = TopPLogitsWarper(top_p)(last, scores)
            log_p = torch.log_softmax(scores, dim=-1)
            last = draw_tokens(log_p, torch.arange(len(rows)), noise[rows, step])[:, None]
            tokens[rows, step] = last[:, 0]
            log_probs[rows, step] = log_p.gather(1, last)[:, 0]
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
            unfinished &= ~torch.isin(last[:, 0], torch.tensor(self.ends))
            if not unfinished.any():
                break
            if (step + 1) % STRETCH == 0:
                # Remove the finished responses from the batch.
                cache.batch_select_indices(unfinished.nonzero()[:, 0])
                rows = rows[unfinished]
                last = last[unfinished]
                mask = mask[unfinished]
                unfinished = unfinished[unfinished]
        return [self._up_to_end(ids, log_p) for ids, log_p in zip(tokens, log_probs, strict=True)]

    def _up_to_end(self, tokens: Tensor, log_probs: Tensor) -> Drawn:
        """A response up to and including its first end token; all of it if it has no end token."""
        ids = tokens.tolist()
        length = len(ids)
        for place, token in enumerate(ids, start=1):
            if token in self.ends:
                length = place
                break
        return Drawn(ids[:length], log_probs[:length].tolist())

    def _next_logits(self, last: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        """Logits (rows, vocabulary) of the next token; adds the last token to the cache.

        Args:
            last: (rows, 1) the last token of each row.
            mask: (rows, tokens) 1 on the tokens in the cache and on the last one, 0 on padding.
        """
        positions = mask.sum(dim=1, keepdim=True) - 1
        output = self.model(
            last, attention_mask=mask, position_ids=positions, past_key_values=cache
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _prompts(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor, DynamicCache]:
        """Fill a cache with the keys and values of prompts, except for the last token of each.

        Shorter prompts are padded between the common beginning of all prompts and their own rest.
        The mask hides the padding.

        Returns: token ids and attention mask, both (P, L), where P is the number of prompts and L
            the length of the longest; and the cache, which lacks the last token of each.
        """
        lengths = [len(prompt) for prompt in prompts]
        # The common beginning, which is computed once, on one row.
        columns = zip(*prompts, strict=False)
        equal_columns = list(takewhile(lambda column: len(set(column)) == 1, columns))
        width = max(lengths)
        # The length of the common beginning. The last token of a prompt is not in the cache.
        common = min(len(equal_columns), min(lengths) - 1)
        ids = torch.full((len(prompts), width), self.pad)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            start = width - (len(prompt) - common)  # column of the first token that is not common
            ids[row, :common] = torch.tensor(prompt[:common], dtype=torch.long)
            ids[row, start:] = torch.tensor(prompt[common:], dtype=torch.long)
            mask[row, :common] = 1
            mask[row, start:] = 1
        cache = DynamicCache(config=self.model.config)
        if common:
            self.model(ids[:1, :common], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(len(prompts))
        # The rest of each prompt, at positions that do not count the padding.
        if width - 1 > common:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            self.model(
                ids[:, common:-1],
                attention_mask=mask[:, :-1],
                position_ids=positions[:, common:-1],
                past_key_values=cache,
                logits_to_keep=1,
            )
        return ids, mask, cache
