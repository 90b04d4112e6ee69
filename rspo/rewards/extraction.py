r"""Finds the final answer of a response, by default the content of its last \boxed{...}.

`EXTRACTIONS` in `rspo.config.names` has the other places in which an answer may stand.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence

from rspo.config.names import BOX_ONLY

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")  # the command of a box
_ANY_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])")  # those that `final_answers` reads
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


def final_answers(text: str, extract: Sequence[str] = BOX_ONLY) -> list[str]:
    """The answers that a text may give, at the first of these places that has any.

    Args:
        extract: names of `EXTRACTIONS`, in the order in which they are tried.

    Returns: an empty list if the text has no answer at these places. There are several answers only
        if several boxes may be one answer, see `_boxed_answers`.
    """
    for place in extract:
        answers = _FINDERS[place](text)
        if answers:
            return answers
    return []


def solution_forms(text: str) -> list[str]:
    r"""The forms of the answer that a published solution gives: its last box, and all as a list.

    If `or` joins the last boxes, the list is the only form.
    """
    boxes, joined_by_or = _boxes(text)
    if not boxes:
        return []
    joined = ", ".join(dict.fromkeys(boxes))
    last = boxes[-1]
    return [joined] if joined_by_or or joined == last else [last, joined]


def _boxed_answers(text: str) -> list[str]:
    r"""A list of the last boxes, and the last box alone. Empty boxes after it do not count.

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
    for opening in reversed(deque(_ANY_BOX.finditer(text), maxlen=_MOST_JOINED)):
        content, end = _argument(text[:following], opening.end())
        is_empty = end > opening.end() and not content
        if is_empty and not boxes:
            continue
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


# --- other places ---------------------------------------------------------------------------------

# `Answer: 34`, `**Final Answer:** 34`, `The answer is 34`, also with the answer in the next line.
_ANSWER_LINE = re.compile(
    r"(?:\banswer\b[*_ \t]{0,4}(?:is\b[*_ \t]{0,4}:?|[:：])|答案(?:是|为|為)?[:：]?)"
    r"[*_ \t]{0,4}\n{0,2}(?P<answer>[^\n]*)",
    re.IGNORECASE,
)
_HASHES = re.compile(r"####[ \t]*(?P<answer>[^#\n]*)")  # GSM8K
_MINERVA = re.compile(r"final answer is:?[ \t]*(?P<answer>[^\n]*)", re.IGNORECASE)
_MINERVA_END = re.compile(r"[. ]{0,5}I hope\b.*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^.])\.(?=\s|$|\*)|。")  # not a point within or after points
# A number with a fraction or a percent sign, which may follow a currency sign.
_LAST_NUMBER = re.compile(
    r"(?<![\w.])-?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)(?:/[0-9]+)?(?:\\?%)?"
)
# A number next to these signs belongs to a formula, whose value it is not.
_FORMULA_BEFORE = re.compile(r"(?:[\\^_{*/+(\[|<>≤≥-]|\\[a-zA-Z]+)[ ]*$")
_FORMULA_AFTER = re.compile(r"[ ]*(?:[}^_*/+(\[!<>-]|\\(?![)\]]))|[a-zA-Z](?![a-zA-Z])")
# Next to these words, a number is not alone, or not the answer.
_WORD_BEFORE = re.compile(r"(?:\b(?:or|and|not|least|most|than)|,)[ $]*$", re.IGNORECASE)
_WORD_AFTER = re.compile(
    r"[ $]*(?:or|pi|times|dozen|hundred|thousand|million|billion|trillion)\b", re.IGNORECASE
)


def _answer_lines(text: str) -> list[str]:
    """What follows the last `Answer:` or `The answer is`, up to the end of its sentence."""
    answer = _last(_ANSWER_LINE, text)
    answer = _last(_ANSWER_LINE, answer) or answer  # Final Answer: The final answer is 5
    sentence_end = _SENTENCE_END.search(answer)
    return _unwrapped(answer[: sentence_end.start()] if sentence_end else answer)


def _answer_tags(text: str) -> list[str]:
    """The content of the last <answer>...</answer>."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return _unwrapped(text[start + len("<answer>") : end]) if start >= 0 else []


def _after_hashes(text: str) -> list[str]:
    """What follows the last ####."""
    return _unwrapped(_last(_HASHES, text))


def _minerva(text: str) -> list[str]:
    """The answer of `The final answer is $5$. I hope it is correct.`"""
    return _unwrapped(_MINERVA_END.sub("", _last(_MINERVA, text)))


def _last_number(text: str) -> list[str]:
    """The last number of a text, unless it is a part of a formula or list: 2^{10}, `5 or 6`."""
    place = None
    for number in _LAST_NUMBER.finditer(text):
        place = number
    if place is None:
        return []
    before = text[max(0, place.start() - 20) : place.start()]
    is_bold = before.endswith("**") and text.startswith("**", place.end())
    in_formula = _FORMULA_BEFORE.search(before) or _FORMULA_AFTER.match(text, place.end())
    has_word = _WORD_BEFORE.search(before) or _WORD_AFTER.match(text, place.end())
    if (in_formula and not is_bold) or has_word:
        return []
    return [place[0].rstrip(",")]


def _last(pattern: re.Pattern[str], text: str) -> str:
    """The group `answer` of the last match; empty without a match."""
    answer = ""
    for match in pattern.finditer(text):
        answer = match["answer"]
    return answer


def _unwrapped(answer: str) -> list[str]:
    """An answer without bold type, its period and its box; an empty list if nothing is left."""
    boxed = _boxed_answers(answer)
    if boxed:
        return boxed
    plain = answer.replace("**", "").strip()
    if not plain.endswith(".."):  # an omission, as in `1, 2, ...`
        plain = plain.removesuffix(".").strip()
    return [plain] if plain else []


_FINDERS: dict[str, Callable[[str], list[str]]] = {
    "box": _boxed_answers,
    "answer-line": _answer_lines,
    "answer-tag": _answer_tags,
    "hashes": _after_hashes,
    "minerva": _minerva,
    "last-number": _last_number,
}
