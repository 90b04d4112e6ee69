"""The reward of the paper's Max@k experiment."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rspo.core.errors import InputError


def length_discounted(
    correct: ArrayLike, tokens: ArrayLike, max_tokens: int, discount: float
) -> NDArray[np.float64]:
    """Paper, section 5.5: 1 - discount * tokens / max_tokens if correct, else 0.

    Args:
        correct: booleans, any shape.
        tokens: length of each response in tokens, the same shape.
        max_tokens: the maximum length of a response.
        discount: how much reward a correct response of maximum length loses (0.5 in the paper).

    Returns: float64 of the same shape.

    Raises: InputError for a length outside 0 .. max_tokens.
    """
    lengths = np.asarray(tokens, dtype=np.float64)
    outside = ~((lengths >= 0) & (lengths <= max_tokens))
    if outside.any():
        raise InputError(
            f"a response of {lengths[outside].flat[0]:g} tokens; allowed: 0 .. {max_tokens}"
        )
    return np.where(correct, 1.0 - discount * lengths / max_tokens, 0.0)
