"""Checks that a weight function keeps its contract.

The message of an error is one line and names the group of rewards for which a check fails.
"""

from inspect import signature

import numpy as np

from rspo.passk import (
    Floats,
    WeightFunction,
    binary_groups,
    exchangeable_weights,
    name_of,
    require_integers,
)

GRADED = 8  # number of groups with rewards other than 0 and 1


def check_weights(function: WeightFunction, k: int, n: int, binary: bool = True) -> None:
    """Check a weight function on groups of n rewards with every number of 0s and 1s.

    Args:
        function: float64 rewards [..., n] and k -> weights [..., n], as `Objective.function`. The
            weights may have any precision, and be a tensor of PyTorch.
        binary: whether the function takes only rewards of 0 and 1. If False, it is also checked on
            groups of random rewards of both signs, some of them equal.

    Raises: ValueError if the function fails or changes its rewards; if it does not return an array
        of finite real numbers in the shape of the rewards; if a group's weights depend on the other
        groups of the array; if weights depend on the order of the responses, so that equal rewards
        get different weights; if the function does not take two arguments; or if k or n is not an
        integer of at least 1.
    """
    require_integers(k=k, n=n)
    require_signature(function)
    groups = binary_groups(n)
    if not binary:
        groups = np.concatenate([groups, graded_groups(n)])
    exchangeable_weights(function, groups, k)


def require_signature(function: WeightFunction) -> None:
    """Raises: ValueError if the function does not take two arguments."""
    name = name_of(function)
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        parameters.bind(None, 1)
    except TypeError:
        expected = f"expected two, as {name}(rewards, k)"
        raise ValueError(f"{name} takes the arguments {parameters}; {expected}") from None


def graded_groups(n: int) -> Floats:
    """Groups of random rewards, (GRADED, n): multiples of 0.5 from -1 to 2, so many are equal."""
    return np.random.default_rng(1).integers(-2, 5, (GRADED, n)) / 2
