"""What a sampler of whole policies is asked and what it gives, whichever sampler it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Question:
    """A problem as a policy is asked it."""

    problem: str  # its id
    prompt: list[int]  # token ids, ready for the response
    max_tokens: int  # of the response, its end token included


@dataclass(frozen=True)
class Block:
    """Some of the N samples of every problem: a table of their own, and random numbers too."""

    number: int
    size: int  # samples of each problem
    stream: tuple[object, ...]  # what the random numbers depend on, besides problem and sample

    @property
    def indices(self) -> range:
        """Of these samples among the N."""
        return range(self.number * self.size, (self.number + 1) * self.size)


@dataclass(frozen=True)
class Response:
    """One sampled response."""

    tokens: list[int]  # ids, the end token included
    ended: bool  # by itself, so that the last token is the end token
    seed: int  # of the random numbers that it was drawn with
    log_probs: list[float]  # of its tokens under the sampling distribution, where asked for


class Sampler(Protocol):
    """A policy that is loaded."""

    gpus: int  # that it keeps busy

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Places of the questions to draw for together; in order, each place once."""

    def draw(self, questions: Sequence[Question], batch: list[int], block: Block) -> list[Response]:
        """The block's responses to each question of a batch, in the order of the questions."""
