"""Sampling from language models of transformers, in one process on a CPU.

Their own `generate` would process each prompt once for each response, and compute finished
responses to the end. Here the longest common beginning of all prompts is computed once, the rest of
each prompt once for all its responses, and finished responses leave the batch every few tokens.

The random numbers of a response are its own. Its tokens do not depend on the other responses, up to
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
        """`ends` are the ids of the tokens that end a response."""
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.ends, self.pad = tuple(ends), ends[0]
        layers = DynamicCache(config=self.model.config).layers
        if other := next((one for one in layers if not isinstance(one, DynamicLayer)), None):
            raise InputError(
                f"{folder}: the sampler on a CPU needs a model with keys and values in each layer; "
                f"this one has {type(other).__name__}"
            )
        # A sliding window would count padding.
        self.pads = all(type(layer) is DynamicLayer for layer in layers) and self._may_pad()

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Replace weights, under the names of transformers. A tied weight has one name.

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
        """
        noise = torch.stack([torch.rand(max_tokens, generator=own) for own in generators])
        # Equal prompts, and prompts of similar length, are sampled together.
        order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row]), [*prompts[row]]))
        drawn: dict[int, Drawn] = {}
        for _, group in groupby(order, lambda row: 0 if self.pads else len(prompts[row])):
            alike = list(group)
            for first in range(0, len(alike), ROWS):
                rows = alike[first : first + ROWS]
                texts = [tuple(prompts[row]) for row in rows]
                drawn |= zip(rows, self._batch(texts, noise[rows], temperature, top_p), strict=True)
        return [drawn[row] for row in range(len(prompts))]

    @torch.inference_mode()
    def _may_pad(self) -> bool:
        """Whether a padded prompt has the same next tokens; ALiBi, for one, counts the padding."""
        prompts = [tuple(range(12)), (*range(5), 7)]
        ids, mask, cache = self._prompts(prompts)
        padded = self._next_logits(ids[:, -1:], mask, cache)
        alone = [self.model(torch.tensor([prompt])).logits[0, -1] for prompt in prompts]
        log_p = [torch.log_softmax(one, -1) for one in (padded, torch.stack(alone))]
        return bool((log_p[0] - log_p[1]).abs().max() < 1e-3)

    def _batch(
        self, prompts: list[tuple[int, ...]], noise: Tensor, temperature: float, top_p: float
    ) -> list[Drawn]:
        """Draw by inverse transform sampling with uniform random numbers, (responses, tokens)."""
        distinct = list(dict.fromkeys(prompts))
        ids, mask, cache = self._prompts(distinct)
        prompt_of = torch.tensor([distinct.index(prompt) for prompt in prompts])
        last, mask = ids[prompt_of, -1:], mask[prompt_of]
        cache.batch_select_indices(prompt_of)
        tokens, log_probs = torch.full(noise.shape, self.pad), torch.zeros(noise.shape)
        rows = torch.arange(len(prompts))  # responses in the batch
        unfinished = torch.ones(len(prompts), dtype=torch.bool)
        for step in range(noise.shape[1]):
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
                cache.batch_select_indices(unfinished.nonzero()[:, 0])
                rows, last, mask = rows[unfinished], last[unfinished], mask[unfinished]
                unfinished = unfinished[unfinished]
        return [self._up_to_end(*one) for one in zip(tokens, log_probs, strict=True)]

    def _up_to_end(self, tokens: Tensor, log_probs: Tensor) -> Drawn:
        ids = tokens.tolist()
        length = next((place for place, id in enumerate(ids, 1) if id in self.ends), len(ids))
        return Drawn(ids[:length], log_probs[:length].tolist())

    def _next_logits(self, last: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        """Logits after the last token (rows, 1), which follows those in the cache."""
        positions = mask.sum(dim=1, keepdim=True) - 1
        output = self.model(
            last, attention_mask=mask, position_ids=positions, past_key_values=cache
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _prompts(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor, DynamicCache]:
        """Token ids and attention mask, both (P, L), and the cache of all but the last token.

        Shorter prompts are padded after the common beginning, where the mask hides the padding.
        """
        lengths = [len(prompt) for prompt in prompts]
        alike = takewhile(lambda column: len({*column}) == 1, zip(*prompts, strict=False))
        # The last token of a prompt is not in the cache.
        width, common = max(lengths), min(len(list(alike)), min(lengths) - 1)
        ids = torch.full((len(prompts), width), self.pad)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            rest = len(prompt) - common
            ids[row, :common], ids[row, width - rest :] = (
                torch.tensor(part, dtype=torch.long) for part in (prompt[:common], prompt[common:])
            )
            mask[row, :common] = mask[row, width - rest :] = 1
        cache = DynamicCache(config=self.model.config)
        if common:
            self.model(ids[:1, :common], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(len(prompts))
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
