"""`sampler: torch`: samples from tiny policies in this process, without vLLM."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from rspo.config.schema import Sampling
from rspo.core.seeds import generator_of, seed_of
from rspo.policies import qwen2
from rspo.policies.responses import Block, Question, Response
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer

# With 32 samples of each problem, a batch has 1,024 rows, which keep one core busy.
PROBLEMS_PER_BATCH = 32


class TorchSampler:
    """A Qwen2 folder, with the sampler of training."""

    gpus = 0

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        """Raises: InputError for a folder that is not a Qwen2 model."""
        self.model = qwen2.load(folder)
        self.tokenizer = tokenizer
        self.sampling = sampling

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Consecutive questions with prompts of equal length, as the sampler needs them."""
        indices = range(len(questions))
        runs = itertools.groupby(indices, key=lambda index: len(questions[index].prompt))
        return [
            run[first : first + PROBLEMS_PER_BATCH]
            for run in (list(run) for _, run in runs)
            for first in range(0, len(run), PROBLEMS_PER_BATCH)
        ]

    def draw(self, questions: Sequence[Question], batch: list[int], block: Block) -> list[Response]:
        """Sample with one stream of random numbers for the batch.

        The stream does not depend on the policy: policies are compared under the same numbers.
        """
        stream = (*block.stream, batch[0], *([block.number] if block.number else []))
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
        columns = (drawn.tokens, drawn.lengths, drawn.finished)
        return [
            Response(tokens[:length], ended, seed_of(*stream))
            for tokens, length, ended in zip(*(column.tolist() for column in columns), strict=True)
        ]
