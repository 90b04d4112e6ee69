"""Sampling from language models of transformers, with `generate`, in one process on a CPU.

`generate` alone would process each prompt once for each response, and compute finished responses to
the end. Here the longest common beginning of all prompts is computed once, the rest of each prompt
once for all its responses, and finished responses leave the batch every few tokens.

The random numbers of a response are its own. Its tokens do not depend on the other responses, up to
rounding.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby, takewhile
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)
from transformers.cache_utils import DynamicLayer

from rspo.core.errors import InputError
from rspo.policies.responses import Drawn
from rspo.policies.sampler import draw_tokens

ROWS = 64  # responses at a time; the cache of 64 x 200 tokens of a 135M model takes 0.6 GB
STRETCH = 8  # tokens between two removals of finished responses


class TransformersModel:
    """A model of transformers in float32 that samples responses."""

    def __init__(self, folder: Path, ends: Sequence[int]) -> None:
        """
        Args:
            ends: ids of the tokens that end a response.

        Raises: InputError for a model whose layers have states other than keys and values.
        """
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.ends, self.pad = frozenset(ends), ends[0]
        layers = DynamicCache(config=self.model.config).layers
        if other := next((one for one in layers if not isinstance(one, DynamicLayer)), None):
            raise InputError(
                f"{folder}: the sampler on a CPU needs a model with keys and values in each layer; "
                f"this one has {type(other).__name__}"
            )
        # A sliding window would count padding.
        self.pads = all(type(layer) is DynamicLayer for layer in layers) and self._may_pad()
        # `generate` adds the settings of the model's own config, such as a repetition penalty.
        self.model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=[*ends], pad_token_id=self.pad
        )

    def kind(self, prompt: Sequence[int]) -> Hashable:
        """The same for all prompts: `sample` takes any together."""
        return None

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
        warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
        if top_p < 1:
            warpers.append(TopPLogitsWarper(top_p))
        # Equal prompts, and prompts of similar length, are sampled together.
        order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row]), [*prompts[row]]))
        drawn: dict[int, Drawn] = {}
        for _, group in groupby(order, lambda row: 0 if self.pads else len(prompts[row])):
            alike = list(group)
            for first in range(0, len(alike), ROWS):
                rows = alike[first : first + ROWS]
                texts = [tuple(prompts[row]) for row in rows]
                drawn |= zip(rows, self._batch(texts, noise[rows], warpers), strict=True)
        return [drawn[row] for row in range(len(prompts))]

    @torch.inference_mode()
    def _may_pad(self) -> bool:
        """Whether a padded prompt has the same next tokens; ALiBi, for one, counts the padding."""
        prompts = [tuple(range(12)), (*range(5), 7)]
        ids, mask, cache = self._prompts(prompts)
        positions = mask.sum(dim=1, keepdim=True) - 1
        padded = self.model(
            ids[:, -1:], attention_mask=mask, position_ids=positions, past_key_values=cache
        )
        alone = [self.model(torch.tensor([prompt])).logits[0, -1] for prompt in prompts]
        log_p = [torch.log_softmax(one, -1) for one in (padded.logits[:, -1], torch.stack(alone))]
        return bool((log_p[0] - log_p[1]).abs().max() < 1e-3)

    def _batch(
        self, prompts: list[tuple[int, ...]], noise: Tensor, warpers: LogitsProcessorList
    ) -> list[Drawn]:
        distinct = list(dict.fromkeys(prompts))
        ids, mask, cache = self._prompts(distinct)
        prompt_of = torch.tensor([distinct.index(prompt) for prompt in prompts])
        ids, mask = ids[prompt_of], mask[prompt_of]
        cache.batch_select_indices(prompt_of)
        responses = [Drawn([], []) for _ in prompts]
        running = torch.arange(len(prompts))  # responses without an end token
        for first in range(0, noise.shape[1], STRETCH):
            draw = _Draw(noise[running, first : first + STRETCH], warpers)
            ids = self.model.generate(
                ids,
                attention_mask=mask,
                past_key_values=cache,
                max_new_tokens=draw.noise.shape[1],
                logits_processor=LogitsProcessorList([draw]),
            )
            mask = torch.nn.functional.pad(mask, (0, ids.shape[1] - mask.shape[1]), value=1)
            for row, (tokens, log_probs) in zip(running.tolist(), draw.columns(), strict=True):
                ending = (place for place, token in enumerate(tokens, 1) if token in self.ends)
                length = next(ending, len(tokens))
                responses[row].tokens.extend(tokens[:length])
                responses[row].log_probs.extend(log_probs[:length])
            unfinished = torch.tensor(
                [responses[row].tokens[-1] not in self.ends for row in running.tolist()]
            ).nonzero()[:, 0]
            if len(unfinished) == 0:
                break
            running, ids, mask = running[unfinished], ids[unfinished], mask[unfinished]
            cache.batch_select_indices(unfinished)
        return responses

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


class _Draw(LogitsProcessor):
    """Draws tokens by inverse transform sampling, and leaves `generate` no other choice."""

    def __init__(self, noise: Tensor, warpers: LogitsProcessorList) -> None:
        """
        Args:
            noise: uniform random numbers, (responses, tokens).
        """
        self.noise, self.warpers = noise, warpers
        self.tokens: list[Tensor] = []
        self.log_probs: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """scores (responses, vocabulary) -> 0 for the drawn token, else -infinity."""
        warped = self.warpers(input_ids, scores.float())  # type: ignore[arg-type]
        log_p = torch.log_softmax(warped, dim=-1)
        rows = torch.arange(len(log_p))
        chosen = draw_tokens(log_p, rows, self.noise[:, len(self.tokens)])[:, None]
        self.tokens.append(chosen)
        self.log_probs.append(log_p.gather(1, chosen))
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)

    def columns(self) -> Iterator[tuple[list[int], list[float]]]:
        """Tokens and log-probabilities of each response, also after its end token."""
        tokens, log_probs = (torch.cat(part, dim=1) for part in (self.tokens, self.log_probs))
        yield from zip(tokens.tolist(), log_probs.tolist(), strict=True)
