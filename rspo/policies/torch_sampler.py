"""`sampler: torch`: a tiny policy's responses, in one process without vLLM."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from rspo.config.schema import Sampling
from rspo.core.seeds import generator_of, seed_of
from rspo.policies import qwen2
from rspo.policies.responses import Block, Question, Response
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer

# Problems sampled together; with 32 samples each, 1,024 rows keep one core busy.
PROBLEMS_PER_BATCH = 32


class TorchSampler:
    """A Qwen2 folder behind the sampler that training has, too."""

    gpus = 0

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        """Raises: InputError for a folder that is no Qwen2."""
        self.model = qwen2.load(folder)
        self.tokenizer = tokenizer
        self.sampling = sampling

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Consecutive prompts that are equally long, as the sampler needs them."""
        found = []
        places = range(len(questions))
        for _, run in itertools.groupby(places, key=lambda place: len(questions[place].prompt)):
            equal = list(run)
            for first in range(0, len(equal), PROBLEMS_PER_BATCH):
                found.append(equal[first : first + PROBLEMS_PER_BATCH])
        return found

    def draw(self, questions: Sequence[Question], batch: list[int], block: Block) -> list[Response]:
        """One stream of random numbers for a whole batch.

        It does not depend on the policy, so two policies are compared under the same draws.
        """
        stream = (*block.stream, batch[0], *([block.number] if block.number else []))
        drawn = sample(
            self.model,
            [questions[place].prompt for place in batch],
            block.size,
            max_tokens=questions[batch[0]].max_tokens,
            end=self.tokenizer.end,
            pad=self.tokenizer.pad,
            generator=generator_of(*stream),
            temperature=self.sampling.temperature,
        )
        columns = (drawn.tokens, drawn.lengths, drawn.finished, drawn.log_probs)
        return [
            Response(tokens[:length], ended, seed_of(*stream), log_probs[:length])
            for tokens, length, ended, log_probs in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]
