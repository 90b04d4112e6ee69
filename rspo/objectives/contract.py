"""What a weight function must do, checked with errors of one line that name the group."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WeightFunction = Callable[[Floats, int], Floats]
MOST_SHOWN = 16  # rewards of a group in a message


def check_weights(function: WeightFunction, k: int, n: int) -> None:
    """Check a weight function on groups of n rewards with every number of 0s and 1s.

    Args:
        function: float64 rewards [..., n] and k -> weights [..., n], as `Objective.function`.

    Raises: ValueError if it returns something else than an array of finite numbers in the shape of
        the rewards, if a group's weights depend on the other groups of the array, or if weights
        depend on the order of the responses, which includes that equal rewards get equal weights.
    """
    name = getattr(function, "__name__", "the weight function")
    groups = binary_groups(n)
    weights = _call(function, groups, k, name)
    middle = groups[(n + 1) // 2]
    alone = _call(function, middle, k, name)
    if not _equal(alone, weights[(n + 1) // 2]):
        raise ValueError(
            f"{name} must return the same weights for a group alone and among others, got "
            f"{shown(alone)} and {shown(weights[(n + 1) // 2])} for {shown(middle)}"
        )
    rng = np.random.default_rng(0)
    for order in (np.arange(n)[::-1], np.roll(np.arange(n), 1), rng.permutation(n)):
        reordered = _call(function, groups[:, order], k, name)
        for group, before, after in zip(groups, weights[:, order], reordered, strict=True):
            if not _equal(before, after):
                raise ValueError(
                    f"{name} must not depend on the order of the responses, got {shown(after)} for "
                    f"{shown(group[order])}, where those for {shown(group)} are {shown(before)} "
                    "in this order"
                )


def binary_groups(n: int) -> Floats:
    """(n+1, n): row c has c rewards of 1, then rewards of 0."""
    return np.tril(np.ones((n + 1, n)), -1)


def require_weights(weights: object, rewards: Floats, name: str) -> None:
    """Check what a weight function has returned for some rewards.

    Raises: ValueError for another shape and for weights that are not finite.
    """
    shape = rewards.shape
    if not isinstance(weights, np.ndarray) or weights.shape != shape:
        found = weights.shape if isinstance(weights, np.ndarray) else type(weights).__name__
        raise ValueError(f"{name} must return a numpy array of shape {shape}, got {found}")
    if not np.isfinite(weights).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(weights))[0])
        wrong = f"{weights[index]} at index {index} for the rewards {shown(rewards[index[:-1]])}"
        raise ValueError(f"{name} must return finite weights, got {wrong}")


def shown(group: Floats) -> str:
    """The numbers of a group in a message, the first ones of a large group."""
    numbers = [f"{value:g}" for value in group[:MOST_SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if len(group) > MOST_SHOWN else ''}]"


def _call(function: WeightFunction, rewards: Floats, k: int, name: str) -> Floats:
    weights = function(rewards.copy(), k)
    require_weights(weights, rewards, name)
    return weights


def _equal(one: Floats, other: Floats) -> bool:
    return np.allclose(one, other, rtol=1e-9, atol=1e-12)
