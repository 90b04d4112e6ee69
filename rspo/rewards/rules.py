r"""When two written answers are the same: math-verify's rules.

math-verify builds and compares SymPy expressions, which can take for ever or all memory, so this
module is only ever imported by the worker processes of `rspo.rewards.workers`.
"""

import logging
from collections.abc import Sequence
from typing import Any

import math_verify

# Its warnings are about time limits, which the worker process sets itself.
logging.getLogger("math_verify").setLevel(logging.ERROR)

# math-verify's other reader, for plain expressions, hands text to SymPy's `parse_expr`, which
# evaluates it as Python. It also takes a stray number out of a box that it cannot read, and so
# calls \boxed{3^x \geq x} the same as \boxed{3}.
_READERS = [math_verify.LatexExtractionConfig()]


def equivalent(accepted: Sequence[str], prediction: str) -> bool:
    r"""Whether a prediction means the same as any accepted form of the answer.

    Both are contents of a box. They are handed over inside one, because outside of it math-verify
    reads bare LaTeX such as `\frac12` as text.
    """
    read = _read(prediction)
    return any(math_verify.verify(_read(form), read, timeout_seconds=None) for form in accepted)


def _read(answer: str) -> list[Any]:
    # No time limit of math-verify's own: it would replace the worker's.
    boxed = f"\\boxed{{{answer}}}"
    found: list[Any] = math_verify.parse(boxed, _READERS, parsing_timeout=None)
    return found
