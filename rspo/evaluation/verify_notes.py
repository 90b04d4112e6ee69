"""What `rspo verify` says beside its counts: what is worth a look before the numbers are used."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rspo.config.names import BOX_ONLY
from rspo.formats.responses import Response
from rspo.rewards import Verdict, texts_of, verify
from rspo.rewards.extraction import extracted_answer, final_answers
from rspo.rewards.verdict import INCORRECT, TIMEOUT

_EXAMPLES = 3
_LONGEST_EXAMPLE = 60  # characters
# Brackets without brackets in them, which may hold the coordinates of a point.
_BRACKETS = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_RUNNING_TEXT = re.compile(r"\\(?:text|mathrm|mbox)[ ]?\{([^{}]*)\}")
# What stands between several values: a comma, but not that of 1,000; `or`, `and`; plus-minus.
_SEVERAL = re.compile(
    r",(?![0-9]{3}(?![0-9]))(?=[^,]*[^\s,.])|;(?=[^;]*[^\s;.])|\b(?:or|and)\b|\\(?:lor|vee|pm)(?![a-zA-Z])"
)
_PLACES_IN_SOLUTIONS = ("box", "hashes")
_MOST_NESTED = 20  # brackets within brackets


def notes(
    responses: Sequence[Response],
    verdicts: Sequence[Verdict],
    verifier: str,
    extract: Sequence[str] = BOX_ONLY,
) -> Iterator[str]:
    """Lines about responses with several values, timeouts, and answers that are not read.

    Args:
        verdicts: the verdict on each response.
        verifier: the verifier that decided.
        extract: where the answer may stand in a response.
    """
    several = []
    for response, verdict in zip(responses, verdicts, strict=True):
        if verdict.reason != INCORRECT:
            continue
        answer = extracted_answer(response.text, verifier, extract)
        if answer is not None and offers_more(answer, texts_of(response.answers)):
            several.append(answer)
    if several:
        yield f"incorrect, and offer several values: {len(several)}, {_examples(several)}"
    slow = []
    for response, verdict in zip(responses, verdicts, strict=True):
        if verdict.reason == TIMEOUT:
            slow.append(extracted_answer(response.text, verifier, extract) or "")
    if slow:
        yield f"over the time limit, which counts as incorrect: {len(slow)}, {_examples(slow)}"
    unread = unread_answers(responses, verdicts, verifier)
    if unread:
        yield (
            f"answers of which {verifier} accepts only an identical copy: {len(unread)}, "
            f"{_examples(unread)}"
        )


def offers_more(answer: str, accepted: Sequence[str]) -> bool:
    """Whether a response offers several values, and no accepted form of the answer has several."""
    return _has_several(answer) and not any(map(_has_several, accepted))


def _has_several(text: str) -> bool:
    """Whether a text has several values outside all brackets."""
    text = _RUNNING_TEXT.sub(r"\1", text)
    for _ in range(_MOST_NESTED):
        shorter = _BRACKETS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _SEVERAL.search(text) is not None


def unread_answers(
    responses: Sequence[Response], verdicts: Sequence[Verdict], verifier: str
) -> list[str]:
    r"""The answers that do not equal themselves when \displaystyle is added, which changes nothing.

    The verifier does not read them, so it accepts only an identical response. Answers that a
    response has matched are left out, and other verifiers than rules and math_verify have no such
    answers.
    """
    if verifier not in ("rules", "math_verify"):
        return []
    is_matched: dict[tuple[str, ...], bool] = defaultdict(bool)
    for response, verdict in zip(responses, verdicts, strict=True):
        is_matched[tuple(texts_of(response.answers))] |= verdict.correct
    answers = [answer for answer, matched in is_matched.items() if not matched]
    # Without the command, the texts would be identical, and the verifier would not be asked.
    boxes = [rf"\boxed{{\displaystyle {_stated(accepted[0])}}}" for accepted in answers]
    return [
        accepted[0]
        for accepted, verdict in zip(answers, verify(boxes, answers, verifier), strict=True)
        if not verdict.correct
    ]


def _stated(answer: str) -> str:
    """What an answer states at its end, if it is a worked solution, as in GSM8K."""
    return next(iter(final_answers(answer, _PLACES_IN_SOLUTIONS)), answer)


def _examples(texts: Sequence[str]) -> str:
    """The first different texts, each on one line and shortened."""
    shown = []
    for text in dict.fromkeys(texts):
        line = " ".join(text.split())
        shown.append(line if len(line) <= _LONGEST_EXAMPLE else line[:_LONGEST_EXAMPLE] + "...")
        if len(shown) == _EXAMPLES:
            break
    return "such as " + " | ".join(shown)
