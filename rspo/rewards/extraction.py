"""The final answer of a text: what stands in its last box."""

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace, \{ or \}, is no brace
_WITHOUT_BRACES = re.compile(r"[^\s$\\]*(?:\\[a-zA-Z{},;!%][^\s$\\]*)*")


def last_box(text: str) -> str | None:
    r"""What stands in the last \boxed{...} or \fbox{...} of a text, spaces around it left out.

    Braces may nest. Without braces, as in `$\boxed 5$`, it is everything up to the next space or
    end of the formula. The innermost of nested boxes counts, being the last one that opens.

    Returns: None if there is no box, if it is empty, or if the last one never closes (the
        response was cut). Time is linear in the length of the text.
    """
    opening = None
    for box in _BOX.finditer(text):  # not rfind: it is quadratic in a run of \boxedx\boxedx...
        opening = box
    return (_argument(text, opening.end()) or None) if opening else None


def _argument(text: str, start: int) -> str:
    """The argument of the command that ends at `start`; empty if it has none or never closes."""
    while start < len(text) and text[start].isspace():
        start += 1
    if not text.startswith("{", start):
        bare = _WITHOUT_BRACES.match(text, start)
        return bare.group().rstrip(".,;:") if bare else ""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[start + 1 : brace.start()].strip()
    return ""
