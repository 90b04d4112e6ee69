r"""Finds the final answer of a text: the content of its last \boxed{...} or \fbox{...}."""

import re
from collections import deque

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")  # the command of a box
# A brace, or a backslash with its character: \{ and \} are skipped, because they do not nest.
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# Only a line that starts with % is a comment, because n % 2 is a remainder and 5 % a percentage.
_COMMENT = re.compile(r"^[ \t]*%.*", re.MULTILINE)
# What may stand between boxes of one answer, as in \boxed{1}, \boxed{2} \text{ and } y = \boxed{3}:
# spaces, separators and delimiters of formulas, "and" or "or", perhaps after a word, and names with
# an equals sign, in any number and order.
_JOINT = re.compile(
    r"(?:[\s$,;]|\\[()\[\],;]|\\q?quad"
    r"|\\text\{[^{}]*(?:and|or)[ ]*\}|(?:[a-z]{3,12}[ ])?\b(?:and|or)\b"
    r"|\b[a-zA-Z](?:_(?:[0-9]|\{[0-9]\}))?[ ]?=)*"
)
_SIGNS = re.compile(r"[^\w.!?=<>%]{0,9}")  # a few signs that neither end a sentence nor compare
_LONGEST_JOINT = 40  # characters between two boxes of one answer
_MOST_JOINED = 20  # boxes of one answer
# An argument without braces: everything up to a space, a dollar sign, or a backslash that ends the
# formula, such as that of \). A backslash of a command, as in \pi, belongs to the argument.
_WITHOUT_BRACES = re.compile(r"[^\s$\\]*(?:\\[a-zA-Z{},;!%][^\s$\\]*)*")


def last_box(text: str) -> str | None:
    r"""The content of the last \boxed{...} or \fbox{...} of a text, without surrounding spaces.

    Braces may nest. Without braces, as in `$\boxed 5$`, the content ends at the next space or the
    end of the formula. If boxes are nested, the innermost is the last one. Time is linear in the
    length of the text.

    Returns: None if there is no box, or if the last box is empty or not closed, because the
        response was truncated.
    """
    text = _without_comments(text)
    opening = None
    for box in _BOX.finditer(text):  # rfind is quadratic in a series of \boxedx\boxedx...
        opening = box
    if opening is None:
        return None
    content, _ = _argument(text, opening.end())
    return content or None


def final_answers(text: str) -> list[str]:
    r"""The answers that a text may give: a list of its last boxes, and the last box alone.

    If only commas, `and` or `or` stand between the last boxes, as in `\boxed{1} and \boxed{2}`,
    the first result is the list `1, 2`, and the second result is the last box. With `or`, the list
    `1 or 2` is the only result, because a text that offers two answers gives neither. If there is a
    single box, or all of these boxes are equal, their content is the only result.

    Returns: an empty list if the text has no box with content.
    """
    boxes, joined_by_or = _boxes(text)
    if not boxes:
        return []
    joined = (" or " if joined_by_or else ", ").join(dict.fromkeys(boxes))
    last = boxes[-1]
    return [joined] if joined_by_or or joined == last else [joined, last]


def extracted_answer(response: str, verifier: str) -> str | None:
    """The text that a verifier compares with the answer, for a table of verdicts.

    xverify reads the whole response; for it, this is the last box.

    Returns: None if there is no answer to extract.
    """
    if verifier in ("exact", "xverify"):
        return last_box(response)
    return next(iter(final_answers(response)), None)


def _boxes(text: str) -> tuple[list[str], bool]:
    """Find the last box and the boxes before it that belong to the same answer.

    Returns: their contents, in order; and whether `or` joins any two of them.
    """
    text = _without_comments(text)
    boxes: list[str] = []
    joined_by_or = False
    following = None  # where the box after the current one starts
    # Go from the last box backwards, until anything but a joint stands between two boxes.
    for opening in reversed(deque(_BOX.finditer(text), maxlen=_MOST_JOINED)):
        content, end = _argument(text[:following], opening.end())
        if not content:
            break
        if following is not None:
            between = text[end:following]
            if not _joined(between):
                break
            if re.search(r"\bor\b", between):
                joined_by_or = True
        boxes.insert(0, content)
        following = opening.start()
    return boxes, joined_by_or


def _without_comments(text: str) -> str:
    """The text without lines that are LaTeX comments."""
    return _COMMENT.sub("", text) if "%" in text else text


def _joined(between: str) -> bool:
    """Whether two boxes belong together, given the text between them.

    They do if the text has only a few signs, or only commas, semicolons and conjunctions, perhaps
    with the name of the next value.
    """
    if _SIGNS.fullmatch(between):
        return True
    if len(between) > _LONGEST_JOINT or not _JOINT.fullmatch(between):
        return False
    # The pattern also matches a text of spaces and names only, which joins nothing.
    return re.search(r",|;|and|or", between) is not None


def _argument(text: str, start: int) -> tuple[str, int]:
    """The argument of the command that ends at `start`, and the index after it.

    The argument is empty if it is missing or its brace is not closed.
    """
    while start < len(text) and text[start].isspace():
        start += 1
    if not text.startswith("{", start):
        bare = _WITHOUT_BRACES.match(text, start)
        assert bare is not None  # the pattern also matches an empty text
        return bare.group().rstrip(".,;:"), bare.end()
    depth = 0  # number of open braces; an escaped brace does not change it
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[start + 1 : brace.start()].strip(), brace.end()
    return "", start
