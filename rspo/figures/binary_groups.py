"""Weights of every objective on groups of 0/1 rewards, for exact expectations over groups.

The weights come from `rspo.objectives.response_weights`, the function that training calls.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rspo.figures.methods import Method, label_of
from rspo.objectives import OBJECTIVES, response_weights

Floats = NDArray[np.float64]

# Objectives that are equal on 0/1 rewards, by the one whose line shows them.
SAME = {"rspo_max_at_k": "rspo_pass_at_k", "rspo_max_at_k_ranked": "rspo_pass_at_k"}
SAME_NOTE = f"on 0/1 rewards {' and '.join(SAME)} equal RSPO"


@dataclass(frozen=True)
class Blocks:
    """A group of n responses as `copies` independent blocks of `size`; their weights add up.

    The arrays have one number for each c = 0 .. size of correct responses in a block, (size + 1,):
    the weight of one wrong response, and the total weights of correct and of wrong responses.
    """

    copies: int
    size: int
    wrong: Floats
    total_correct: Floats
    total_wrong: Floats


def blocks_of(objective: str, k: int, n: int) -> Blocks:
    """The blocks of a group: hitchhiking's groups of k; the whole group otherwise."""
    size = k if objective == "hitchhiking" else n
    correct = np.arange(size + 1)
    rewards = np.tril(np.ones((size + 1, size)), -1)  # row c: c correct responses, then wrong ones
    weights = response_weights(rewards, objective, k) * (size / n)
    first, last = weights[:, 0], weights[:, -1]
    return Blocks(n // size, size, last, first * correct, last * (size - correct))


def binomial(n: int, p: float) -> Floats:
    """(n + 1,) probability that c = 0 .. n of n responses are correct, each with probability p."""
    return np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])


def lines() -> list[Method]:
    """A line for each objective that differs on 0/1 rewards, as in the figures of results."""
    return [
        Method(label_of(objective), objective) for objective in OBJECTIVES if objective not in SAME
    ]


def shown_as(objective: str) -> str:
    """The label of the line that shows an objective."""
    return label_of(SAME.get(objective, objective))
