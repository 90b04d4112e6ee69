"""The verifier `math_verify`: the library math-verify with its default settings.

Only worker processes import this module (`rspo.rewards.sandbox`). They also set the limits: the
library's own time limits use the same timer as the worker's, so they are off.
"""

import logging
from collections.abc import Sequence
from typing import Any

import math_verify

from rspo.rewards.extraction import last_box

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns about the time limits


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
    """The expressions that the library reads in a text, which it expects in a box."""
    boxed = text if last_box(text) else f"\\boxed{{{text}}}"
    result: list[Any] = math_verify.parse(boxed, parsing_timeout=None)
    return result
