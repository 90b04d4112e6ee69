r"""Finds the final answer of a response, by default the content of its last \boxed{...}.

`PLACES` in `rspo.config.names` has the other places in which an answer may stand.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rspo.config.names import BOX_ONLY
from rspo.rewards import places

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")  # the command of a box
_ANY_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])")  # those that `final_answers` reads
# A brace, or a backslash with its character: \{ and \} are skipped, because they do not nest.
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# Only a line that starts with % is a comment, because n % 2 is a remainder and 5 % a percentage.
_COMMENT = re.compile(r"^[ \t]*%.*", re.MULTILINE)
# What may stand between boxes of one answer, as in \boxed{1}, \boxed{2} \text{ and } y = \boxed{3}:
# spaces, separators and delimiters of formulas, "and", perhaps after a word, and names with an
# equals sign, in any number and order. Alternatives are found before: `places.is_alternative`.
_JOINT = re.compile(
    r"(?:[\s$,;]|\\[()\[\],;]|\\q?quad"
    r"|\\text\{[^{}]*and[ ]*\}|(?:[a-z]{3,12}[ ])?\band\b"
    r"|\b[a-zA-Z](?:_(?:[0-9]|\{[0-9]\}))?[ ]?=)*"
)
# Signs that show nothing: spaces, empty groups and texts.
_BLANK = re.compile(
    r"(?:[\s~$&{}]|\\(?:[,;:! ]|$)|\\q?quad(?![a-zA-Z])|\\(?:text|mbox|mathrm)(?=\{))*"
)
_SIGNS = re.compile(r"[^\w.!?=<>%]{0,9}")  # a few signs that neither end a sentence nor compare
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
    return _argument(text, opening.end()).content or None


def final_answers(text: str, extract: Sequence[str] = BOX_ONLY) -> list[str]:
    """The answers that a text may give, at the first of these places that has any.

    Args:
        extract: names of `PLACES`, in the order in which they are tried.

    Returns: an empty list if the text has no answer at these places. There are several answers only
        if several boxes may be one answer, see `_boxed_answers`.
    """
    for place in extract:
        answers = _answers_at(place, text)
        if answers:
            return answers
    return []


def _answers_at(place: str, text: str) -> list[str]:
    """The answers at one place.

    At other places than a box, a further problem with which a base model goes on does not count, if
    there is an answer before it.
    """
    if place == "box":
        return _boxed_answers(text)
    if place == "whole":
        return _unwrapped(text)
    find = _FINDERS[place]
    answer = find(places.before_next_problem(text)) or find(text)
    return _unwrapped(answer)


def solution_forms(text: str) -> list[str]:
    r"""The forms of the answer that a published solution gives: its last box, and all as a list.

    If `or` joins the last boxes, the list is the only form.
    """
    # A solution states both values of `1 or 2`, so they are a list like those of `1 and 2`.
    return list(reversed(_boxed_answers(text, alternatives=", ")))


def _boxed_answers(text: str, alternatives: str = " or ") -> list[str]:
    r"""A list of the last boxes, and the last box alone. Empty boxes after it do not count.

    If only commas, `and` or `or` stand between the last boxes, as in `\boxed{1} and \boxed{2}`,
    the first result is the list `1, 2`, and the second result is the last box. With `or`, the list
    `1 or 2` is the only result, because a text that offers two answers gives neither. If there is a
    single box, or all of these boxes are equal, their content is the only result.

    Args:
        alternatives: what stands between the items of the list if `or` joins the boxes.

    Returns: an empty list if the text has no box with content.
    """
    boxes, joined_by_or = _boxes(text)
    if not boxes:
        return []
    joined = (alternatives if joined_by_or else ", ").join(dict.fromkeys(boxes))
    last = boxes[-1]
    return [joined] if joined_by_or or joined == last else [joined, last]


def extracted_answer(response: str, verifier: str, extract: Sequence[str] = BOX_ONLY) -> str | None:
    """The text that a verifier compares with the answer, for a table of verdicts.

    xverify reads the whole response; for it, this is the last box.

    Returns: None if there is no answer to extract.
    """
    if verifier == "xverify":
        return last_box(response)
    if verifier == "exact":
        return text_answer(response, extract)
    return next(iter(final_answers(response, extract)), None)


def text_answer(response: str, extract: Sequence[str] = BOX_ONLY) -> str | None:
    """The answer that `exact` compares as text: of several boxes the last; None without any."""
    if tuple(extract) == BOX_ONLY:
        return last_box(response)
    return next(reversed(final_answers(response, extract)), None)


def _boxes(text: str) -> tuple[list[str], bool]:
    """Find the last box and the boxes before it that belong to the same answer.

    Empty boxes after it are left out. A box after it that is not closed leaves none, because the
    response was truncated.

    Returns: their contents, in order; and whether `or` joins any two of them.
    """
    text = _without_comments(text)
    boxes: list[str] = []
    joined_by_or = False
    following = None  # where the box after the current one starts
    # Go from the last box backwards, until anything but a joint stands between two boxes.
    for opening in reversed(list(_ANY_BOX.finditer(text))):
        box = _argument(text[:following], opening.end())
        if box.is_closed and not box.content and not boxes:
            continue
        if not box.content or len(boxes) == _MOST_JOINED:
            break
        if following is not None:
            between = text[box.end : following]
            is_alternative = places.is_alternative(between)
            if not is_alternative and not _joined(between):
                break
            joined_by_or = joined_by_or or is_alternative
        boxes.insert(0, box.content)
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
    if len(between) > places.LONGEST_GAP or not _JOINT.fullmatch(between):
        return False
    # The pattern also matches a text of spaces and names only, which joins nothing.
    return re.search(r",|;|and", between) is not None


class _Argument(NamedTuple):
    """The argument of a command.

    content: without spaces around it; empty if it is missing, not closed, or shows nothing.
    end: the index after it.
    is_closed: whether its brace is closed, or, without braces, the text goes on or has content.
    """

    content: str
    end: int
    is_closed: bool


def _argument(text: str, start: int) -> _Argument:
    """The argument of the command that ends at `start`."""
    while start < len(text) and text[start].isspace():
        start += 1
    if not text.startswith("{", start):
        bare = _WITHOUT_BRACES.match(text, start)
        assert bare is not None  # the pattern also matches an empty text
        content = bare.group().rstrip(".,;:")
        return _Argument(content, bare.end(), bool(content) or bare.end() < len(text))
    depth = 0  # number of open braces; an escaped brace does not change it
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            content = text[start + 1 : brace.start()].strip()
            is_blank = _BLANK.fullmatch(content)
            return _Argument("" if is_blank else content, brace.end(), True)
    return _Argument("", start, False)


def _unwrapped(answer: str) -> list[str]:
    """An answer without bold type, its period and its box; an empty list if nothing is left."""
    boxed = _boxed_answers(answer)
    if boxed or _ANY_BOX.search(answer):  # a box that is empty or not closed leaves nothing
        return boxed
    plain = answer.replace("**", "").strip()
    if not plain.endswith(".."):  # an omission, as in `1, 2, ...`
        plain = plain.removesuffix(".").strip()
    return [plain] if plain else []


_FINDERS: dict[str, Callable[[str], str]] = {
    "answer-line": places.answer_line,
    "answer-tag": places.answer_tag,
    "hashes": places.hashes,
    "minerva": places.minerva,
    "last-number": places.last_number,
}
