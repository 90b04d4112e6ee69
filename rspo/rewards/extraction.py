"""The final answer of a text: what stands in its last box."""

import re
from collections import deque

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace, \{ or \}, is no brace
# Within a line, a sign of percent is one, or that of a remainder: n % 2.
_COMMENT = re.compile(r"^[ \t]*%.*", re.MULTILINE)
# What joins boxes to one answer: \boxed{1}, \boxed{2} \text{ and } y = \boxed{3}.
_JOINT = re.compile(
    r"(?:[\s$,;]|\\[()\[\],;]|\\q?quad"
    r"|\\text\{[^{}]*(?:and|or)[ ]*\}|(?:[a-z]{3,12}[ ])?\b(?:and|or)\b"
    r"|\b[a-zA-Z](?:_(?:[0-9]|\{[0-9]\}))?[ ]?=)*"
)
_SIGNS = re.compile(r"[^\w.!?=<>%]{0,9}")
_LONGEST_JOINT = 40
_MOST_JOINED = 20
_WITHOUT_BRACES = re.compile(r"[^\s$\\]*(?:\\[a-zA-Z{},;!%][^\s$\\]*)*")


def last_box(text: str) -> str | None:
    r"""What stands in the last \boxed{...} or \fbox{...} of a text, spaces around it left out.

    Braces may nest. Without braces, as in `$\boxed 5$`, it is everything up to the next space or
    end of the formula. The innermost of nested boxes counts, being the last one that opens.

    Returns: None if there is no box, if it is empty, or if the last one never closes (the
        response was cut). Time is linear in the length of the text.
    """
    text = _without_comments(text)
    opening = None
    for box in _BOX.finditer(text):  # not rfind: it is quadratic in a run of \boxedx\boxedx...
        opening = box
    return (_argument(text, opening.end())[0] or None) if opening else None


def final_answers(text: str) -> list[str]:
    r"""What a text may be taken to answer: its last box, or several that are joined to a list.

    The last box always counts. Where only a comma, `and` or `or` parts it from boxes before it, as
    in `\boxed{1} and \boxed{2}`, all of them, `1, 2`, is a second reading and comes first. With
    `or` it is the only one: a text that offers two answers gives neither.
    """
    boxes, offered = _boxes(text)
    joined = ", ".join(dict.fromkeys(boxes))
    readings = [joined] if offered else [joined, *boxes[-1:]]
    return list(dict.fromkeys(readings)) if boxes else []


def _boxes(text: str) -> tuple[list[str], bool]:
    """Contents of the last box and of those joined to it, in order, and whether by `or`."""
    text = _without_comments(text)
    boxes: list[str] = []
    offered = False
    following = None
    for opening in reversed(deque(_BOX.finditer(text), maxlen=_MOST_JOINED)):
        content, end = _argument(text[:following], opening.end())
        if not content or (following is not None and not _joined(text[end:following])):
            break
        offered |= following is not None and re.search(r"\bor\b", text[end:following]) is not None
        boxes.insert(0, content)
        following = opening.start()
    return boxes, offered


def _without_comments(text: str) -> str:
    return _COMMENT.sub("", text) if "%" in text else text


def _joined(between: str) -> bool:
    """Whether two boxes belong together: nothing but a few signs, or a conjunction, parts them."""
    if _SIGNS.fullmatch(between):
        return True
    if len(between) > _LONGEST_JOINT or not _JOINT.fullmatch(between):
        return False
    return re.search(r",|;|and|or", between) is not None


def _argument(text: str, start: int) -> tuple[str, int]:
    """The argument of the command that ends at `start`, and where it ends.

    The argument is empty if there is none or it never closes.
    """
    while start < len(text) and text[start].isspace():
        start += 1
    if not text.startswith("{", start):
        bare = _WITHOUT_BRACES.match(text, start)
        return (bare.group().rstrip(".,;:"), bare.end()) if bare else ("", start)
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[start + 1 : brace.start()].strip(), brace.end()
    return "", start
