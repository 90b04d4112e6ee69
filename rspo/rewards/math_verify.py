"""The verifier `math_verify`: the library math-verify with its default settings.

Only worker processes import this module (`rspo.rewards.sandbox`). The workers limit time and
memory. The library's own time limits are off, because they use the same timer as the worker's.
"""

import logging
from collections.abc import Sequence
from typing import Any

import math_verify

from rspo.rewards.extraction import last_box

# Without this, the library warns that its time limits are off.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def equivalent(accepted: Sequence[str], predictions: Sequence[str]) -> bool:
    """Whether the library finds any prediction equal to any accepted form of the answer."""
    golds = [_parse(form) for form in accepted]
    guesses = [_parse(prediction) for prediction in predictions]
    for gold in golds:
        for guess in guesses:
            if math_verify.verify(gold, guess, timeout_seconds=None):
                return True
    return False


def _parse(text: str) -> list[Any]:
    """The expressions that the library reads in a text.

    The library looks for a box, so a text without one is put into a box.
    """
    boxed = text if last_box(text) else f"\\boxed{{{text}}}"
    result: list[Any] = math_verify.parse(boxed, parsing_timeout=None)
    return result
