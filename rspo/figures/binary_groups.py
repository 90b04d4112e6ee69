"""Weights of every objective on groups of 0/1 rewards, for exact expectations over groups.

The weights come from `rspo.objectives.response_weights`, the function that training calls.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rspo.core.errors import InputError
from rspo.figures.methods import Method, label_of
from rspo.objectives import OBJECTIVES, compared, response_weights

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
    """The blocks of a group: hitchhiking's groups of k; the whole group otherwise.

    Raises: InputError for an objective whose weights also depend on the order of the responses.
    """
    size = k if objective == "hitchhiking" else n
    correct = np.arange(size + 1)
    rewards = np.tril(np.ones((size + 1, size)), -1)  # row c: c correct responses, then wrong ones
    weights = response_weights(rewards, objective, k) * (size / n)
    expected = np.where(rewards == 1, weights[:, :1], weights[:, -1:])
    for order in (
        np.arange(size),
        np.arange(size)[::-1],
        np.random.default_rng(0).permutation(size),
    ):
        reordered = response_weights(rewards[:, order], objective, k) * (size / n)
        if not np.allclose(reordered, expected[:, order], rtol=1e-9, atol=1e-12):
            raise InputError(
                f"objective {objective} gives equal rewards different weights, so its expectations "
                f"are not sums over the number of correct responses (k = {k}, n = {n})"
            )
    first, last = weights[:, 0], weights[:, -1]
    return Blocks(n // size, size, last, first * correct, last * (size - correct))


def binomial(n: int, p: float) -> Floats:
    """(n + 1,) probability that c = 0 .. n of n responses are correct, each with probability p."""
    return np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])


def exact_objectives(ks: Sequence[int], n: int) -> list[str]:
    """The objectives that `blocks_of` accepts for groups of n with each k that they allow."""
    return [objective for objective in compared() if _is_exact(objective, ks, n)]


def _is_exact(objective: str, ks: Sequence[int], n: int) -> bool:
    allowed = [k for k in ks if OBJECTIVES[objective].allows(k, n)]
    try:
        for k in allowed:
            blocks_of(objective, k, n)
    except InputError:
        return False
    return bool(allowed)


def not_shown(shown: Iterable[str]) -> list[str]:
    """A line of small print about the objectives that a figure of exact expectations lacks."""
    if missing := [label_of(objective) for objective in compared() if objective not in {*shown}]:
        why = "equal rewards get different weights, or k and n do not fit"
        return [f"not shown: {', '.join(missing)} ({why})"]
    return []


def lines(objectives: Iterable[str] | None = None) -> list[Method]:
    """A line for each objective that differs on 0/1 rewards, as in the figures of results."""
    names = compared() if objectives is None else objectives
    return [Method(label_of(objective), objective) for objective in names if objective not in SAME]


def shown_as(objective: str) -> str:
    """The label of the line that shows an objective."""
    return label_of(SAME.get(objective, objective))
