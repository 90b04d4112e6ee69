"""The two kinds of policies of a rollout server on a CPU: models from scratch, and all others."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rspo.core.errors import InputError
from rspo.policies import qwen2
from rspo.policies.responses import Drawn
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer

if TYPE_CHECKING:
    from rspo.policies.transformers_sampler import TransformersModel

# Measured with the tiny models: in products of a multiple of this, no row depends on the others.
ROWS = 32


def load_policy(folder: Path) -> "TinyPolicy | TransformersModel":
    """The policy of a folder.

    Raises: InputError for a folder without a readable model and tokenizer.
    """
    tokenizer = ChatTokenizer(folder)
    if tokenizer.is_tiny:
        return TinyPolicy(folder, tokenizer)
    # transformers takes seconds to import.
    from rspo.policies.transformers_sampler import TransformersModel

    return TransformersModel(folder, tokenizer.ends)


class TinyPolicy:
    """A model from scratch, with the sampler of the local engine."""

    def __init__(self, folder: Path, tokenizer: ChatTokenizer) -> None:
        self.model = qwen2.load(folder)
        self.end, self.pad = tokenizer.end, tokenizer.pad

    def kind(self, prompt: Sequence[int]) -> Hashable:
        """Prompts of the same kind can be in one call of `sample`: those of the same length."""
        return len(prompt)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        generators: Sequence[torch.Generator],
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> list[Drawn]:
        """Sample one response to each prompt (token ids), with random numbers of its own.

        Raises: InputError unless top_p is 1.
        """
        if top_p != 1:
            raise InputError(f"top_p = {top_p}: models from scratch sample with top_p = 1 only")
        copies = -len(prompts) % ROWS  # of the first response, which take no time of their own
        drawn = sample(
            self.model,
            [*prompts, *[prompts[0]] * copies],
            1,
            max_tokens=max_tokens,
            end=self.end,
            pad=self.pad,
            generator=[*generators, *(generators[0].clone_state() for _ in range(copies))],
            temperature=temperature,
            multiple=ROWS,
        )
        columns = (column.tolist() for column in (drawn.tokens, drawn.log_probs, drawn.lengths))
        return [
            Drawn(tokens[:length], log_probs[:length])
            for tokens, log_probs, length in list(zip(*columns, strict=True))[: len(prompts)]
        ]

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Replace the weights, which have the names of transformers."""
        qwen2.load_hub_weights(self.model, weights)
