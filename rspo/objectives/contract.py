"""What a weight function must do, checked with errors of one line that name the group."""

from collections.abc import Callable
from inspect import signature

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WeightFunction = Callable[[Floats, int], Floats]
MOST_SHOWN = 16  # rewards of a group in a message
GRADED = 8  # groups of rewards other than 0 and 1


def check_weights(function: WeightFunction, k: int, n: int, binary: bool = True) -> None:
    """Check a weight function on groups of n rewards with every number of 0s and 1s.

    Args:
        function: float64 rewards [..., n] and k -> weights [..., n], as `Objective.function`.
        binary: False for a function of any rewards: check other groups too, with random rewards of
            both signs, some of them equal.

    Raises: ValueError if it changes its rewards, if it returns something else than an array of
        finite real numbers in their shape, if a group's weights depend on the other groups of the
        array, or if weights depend on the order of the responses, which includes that equal rewards
        get equal weights. Also if it does not take two arguments, or k or n is not an integer of
        at least 1.
    """
    for given, value in (("k", k), ("n", n)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{given} must be an integer of at least 1, got {value!r}")
    name = getattr(function, "__name__", "the weight function")
    _require_signature(function, name)
    groups, chosen = binary_groups(n), sorted({0, 1, n // 2, n - 1, n})
    if not binary:
        chosen += range(len(groups), len(groups) + GRADED)
        groups = np.concatenate([groups, graded_groups(n)])
    weights = _call(function, groups, k, name)
    for place in chosen:
        for alone in (groups[place], groups[[place]]):
            _require_same(_call(function, alone, k, name), weights[place], groups[place], name)
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


def _require_signature(function: WeightFunction, name: str) -> None:
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # a function written in C may not tell
        return
    try:
        parameters.bind(None, 1)
    except TypeError:
        expected = f"expected two, as {name}(rewards, k)"
        raise ValueError(f"{name} takes the arguments {parameters}; {expected}") from None


def _require_same(alone: Floats, among: Floats, group: Floats, name: str) -> None:
    alone = alone.reshape(group.shape)
    if not _equal(alone, among):
        raise ValueError(
            f"{name} must return the same weights for a group alone and among others, got "
            f"{shown(alone)} and {shown(among)} for {shown(group)}"
        )


def binary_groups(n: int) -> Floats:
    """(n+1, n): row c has c rewards of 1, then rewards of 0."""
    return np.tril(np.ones((n + 1, n)), -1)


def graded_groups(n: int) -> Floats:
    """(GRADED, n): rewards from -1 to 2 in steps of 0.5, which are often equal."""
    return np.random.default_rng(1).integers(-2, 5, (GRADED, n)) / 2


def require_weights(weights: object, rewards: Floats, name: str) -> None:
    """Check what a weight function has returned for some rewards.

    Raises: ValueError for another shape and for weights that are not finite real numbers.
    """
    shape = rewards.shape
    if not isinstance(weights, np.ndarray) or weights.shape != shape:
        found = weights.shape if isinstance(weights, np.ndarray) else type(weights).__name__
        raise ValueError(f"{name} must return a numpy array of shape {shape}, got {found}")
    if weights.dtype.kind not in "fiub":  # floats, integers, booleans
        raise ValueError(f"{name} must return real numbers, got dtype {weights.dtype}")
    if not np.isfinite(weights).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(weights))[0])
        wrong = f"{weights[index]} at index {index} for the rewards {shown(rewards[index[:-1]])}"
        raise ValueError(f"{name} must return finite weights, got {wrong}")


def shown(group: Floats) -> str:
    """The numbers of a group in a message, the first ones of a large group."""
    numbers = [f"{value:g}" for value in group[:MOST_SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if len(group) > MOST_SHOWN else ''}]"


def _call(function: WeightFunction, rewards: Floats, k: int, name: str) -> Floats:
    given = rewards.copy()
    weights = function(given, k)
    if not np.array_equal(given, rewards):
        raise ValueError(f"{name} must not change the rewards that it is given")
    require_weights(weights, rewards, name)
    return weights


def _equal(one: Floats, other: Floats) -> bool:
    return np.allclose(one, other, rtol=1e-9, atol=1e-12)
