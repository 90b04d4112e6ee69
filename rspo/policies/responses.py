"""Types of requests and responses, and the interface of the samplers for evaluation.

These samplers are `sampler: torch` and `sampler: vllm` in the config.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Question:
    """A problem as a prompt for a policy."""

    problem: str  # id of the problem
    prompt: list[int]  # token ids, up to the start of the response
    max_tokens: int  # maximum length of the response, including its end token


@dataclass(frozen=True)
class Block:
    """A fixed part of the N samples of every problem, with its own table and random numbers.

    Block 0 has the first `size` samples of each problem, block 1 the next `size`, and so on.
    """

    number: int
    size: int  # samples per problem
    stream: tuple[object, ...]  # parts of the seed; the sampler adds parts for each batch

    @property
    def indices(self) -> range:
        """Indices of the block's samples among the N."""
        return range(self.number * self.size, (self.number + 1) * self.size)


@dataclass(frozen=True)
class Drawn:
    """One sampled response of a training.

    tokens: token ids, including the end token.
    log_probs: the natural logarithm of the probability of each token when it was sampled.
    """

    tokens: list[int]
    log_probs: list[float]


class Sampler(Protocol):
    """A loaded policy."""

    gpus: int  # number of GPUs that it uses

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Partition the indices of the questions into batches, in order."""

    def draw(
        self, questions: Sequence[Question], batch: list[int], block: Block
    ) -> tuple[list[list[int]], int]:
        """Sample the block's responses to each question of a batch, in the order of the batch.

        Returns: the token ids of each response, including the end token, with the responses to one
            question together; and the seed of the batch.
        """
