"""Every objective's weights on groups of 0/1 rewards: what exact expectations are sums over.

The weights come from `rspo.objectives.response_weights`, the function that training calls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rspo.figures.methods import Method, label_of
from rspo.objectives import OBJECTIVES, response_weights

Floats = NDArray[np.float64]

# Objectives that are the same on 0/1 rewards, by the one whose line shows them.
SAME = {"rspo_max_at_k": "rspo_pass_at_k", "rspo_max_at_k_ranked": "rspo_pass_at_k"}


@dataclass(frozen=True)
class Blocks:
    """A group of n responses as `copies` independent blocks of `size`; their weights add up.

    Within a block every correct response weighs the same, and so does every wrong one.

    correct, wrong: (size + 1,) the weight of each such response when c = 0 .. size are correct; 0
        where there is none.
    """

    copies: int
    size: int
    correct: Floats
    wrong: Floats

    @property
    def total_correct(self) -> Floats:
        """Total weight of a block's correct responses, by their count."""
        return self.correct * np.arange(self.size + 1)

    @property
    def total_wrong(self) -> Floats:
        return self.wrong * np.arange(self.size, -1, -1)


def blocks_of(objective: str, k: int, n: int) -> Blocks:
    """The blocks of a group. Hitchhiking's groups of k are blocks; any other group is one."""
    size = k if objective == "hitchhiking" else n
    rewards = np.tril(np.ones((size + 1, size)), -1)  # row c: c correct ones, then wrong ones
    weights = response_weights(rewards, objective, k) * (size / n)
    correct, wrong = weights[:, 0], weights[:, -1]
    some_correct, some_wrong = np.arange(size + 1) > 0, np.arange(size + 1) < size
    return Blocks(n // size, size, correct * some_correct, wrong * some_wrong)


def binomial(n: int, p: float) -> Floats:
    """P(c of n are correct), c = 0 .. n, when each is with probability p."""
    return np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])


def lines() -> list[Method]:
    """A line for each objective that differs on 0/1 rewards, as in the figures of results."""
    return [
        Method(label_of(objective), objective, None, None, ())
        for objective in OBJECTIVES
        if objective not in SAME
    ]


def shown_as(objective: str) -> str:
    """The line of an objective, as the legend names it."""
    return label_of(SAME.get(objective, objective))


def same_note(names: Sequence[str] = tuple(SAME)) -> str:
    return f"on 0/1 rewards {' and '.join(names)} are RSPO"
