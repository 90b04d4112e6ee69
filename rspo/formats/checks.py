"""Warnings about responses that would be counted twice, or silently count as wrong."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rspo.config.names import BOX_ONLY, EXTRACTING, EXTRACTIONS, WHOLE
from rspo.formats.responses import Response
from rspo.rewards import texts_of
from rspo.rewards.extraction import final_answers

# The verifiers that say whether a response has an answer. A judge model and verifiers of the user
# read the full response.
READ_ANSWERS = EXTRACTING
LARGE_SHARE = 0.2  # of responses without an answer, from which other places are looked at
_LONGEST_BARE = 40  # characters of a response that may be the answer itself
_LIST_OF_TEXTS = re.compile(r"\s*\[\s*(['\"]).*\1\s*,?\s*\]\s*", re.DOTALL)


def problem_warnings(problems: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Warnings about the problems of some responses.

    Args:
        problems: for each response, what it is grouped by, and the id of its problem; the id is
            empty if there is none.
    """
    yield from _spaces([group for group, _ in problems])
    ids_of: dict[str, dict[str, None]] = defaultdict(dict)
    for group, problem_id in problems:
        if problem_id:
            ids_of[group][problem_id] = None
    several = [group for group, ids in ids_of.items() if len(ids) > 1]
    if several and _are_ids_of_problems(problems):
        yield (
            f"{_with_several_ids(several, ids_of)}: their responses count as those of one problem; "
            "--problem-column names the key of the id to keep them apart"
        )


def _with_several_ids(texts: Sequence[str], ids_of: Mapping[str, Iterable[str]]) -> str:
    """The beginning of a warning about problem texts that have several ids."""
    ids = " and ".join(list(ids_of[texts[0]])[:2])
    what = "problem text has" if len(texts) == 1 else "problem texts have"
    return f"warning: {len(texts)} {what} several ids, such as {ids} for {texts[0]!r:.60}"


def _are_ids_of_problems(problems: Sequence[tuple[str, str]]) -> bool:
    """Whether ids seem to be those of problems, not of responses.

    None belongs to several texts, as the number of a response or the ids of two benchmarks do. And
    an id has several responses, or most texts have one id only.
    """
    counts = Counter(problem_id for _, problem_id in problems if problem_id)
    pairs = {(group, problem_id) for group, problem_id in problems if problem_id}
    if len(pairs) > len(counts):
        return False
    ids_of_texts = Counter(group for group, _ in pairs)
    single = sum(number == 1 for number in ids_of_texts.values())
    return max(counts.values(), default=0) > 1 or single > len(ids_of_texts) / 2


def _spaces(groups: Sequence[str]) -> Iterator[str]:
    """A warning about problems that differ by spaces only."""
    spellings: dict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        spellings[" ".join(group.split())][group] = None
    differing = [list(names) for names in spellings.values() if len(names) > 1]
    if differing:
        first, second, *_ = differing[0]
        yield (
            f"warning: {len(differing)} problem{'s' * (len(differing) > 1)} in several spellings "
            f"that differ by spaces only, such as {first!r:.60} and {second!r:.60}: they count as "
            "different problems; --problem-column may name a better key"
        )


def text_warnings(responses: Sequence[Response]) -> Iterator[str]:
    """Warnings about the answers and texts that a verifier reads."""
    by_id = {response.id: response.question for response in responses if response.by_id}
    yield from _texts_of_several_ids(by_id)
    yield from _lists_as_text(responses)
    yield from _problems_that_are_responses(responses)
    yield from _repeated(responses)
    yield from _empty(responses)


def _texts_of_several_ids(question_of: Mapping[str, str]) -> Iterator[str]:
    """A warning about ids whose problems have the same text, if responses are grouped by id."""
    ids_of: dict[str, list[str]] = defaultdict(list)
    for problem_id, question in question_of.items():
        if question != problem_id:
            ids_of[question].append(problem_id)
    several = [question for question, ids in ids_of.items() if len(ids) > 1]
    if several:
        yield (
            f"{_with_several_ids(several, ids_of)}: they count as different problems; "
            "--problem-column names the key of the text to take them together"
        )


def _lists_as_text(responses: Sequence[Response]) -> Iterator[str]:
    """Warnings about answers and responses such as "['5']", which are the text of a list."""
    forms = chain.from_iterable(texts_of(response.answers) for response in responses)
    answer = next((form for form in forms if _LIST_OF_TEXTS.fullmatch(form)), None)
    if answer is not None:
        yield (
            f"warning: answers are the text of a list, such as {answer!r:.60}, which no response "
            "equals; --answer-column 'KEY.*' reads the items of such a text as accepted forms"
        )
    texts = [response.text for response in responses if response.text]
    if texts and all(_LIST_OF_TEXTS.fullmatch(text) for text in texts):
        yield (
            f"warning: each response is the text of a list, such as {texts[0]!r:.60}, and counts "
            "as one; --response-column 'KEY.*' reads the items of such a text as responses"
        )


def _problems_that_are_responses(responses: Sequence[Response]) -> Iterator[str]:
    """A warning if the problem of each response is the response itself."""
    if all(response.question == response.text for response in responses):
        yield (
            "warning: the problem of each response is its own text, so that each is alone; "
            "--problem-column names the key of the problem, such as messages.-2 in a conversation"
        )


def _empty(responses: Sequence[Response]) -> Iterator[str]:
    """A warning about responses without text, which failed requests leave, too."""
    empty = [response for response in responses if not response.text.strip()]
    if empty:
        problems = len({response.problem for response in empty})
        yield (
            f"warning: {len(empty)} of {len(responses)} responses are empty or null, to "
            f"{problems} problem{'s' * (problems > 1)}: they count as responses without an answer; "
            "leave them out if they were never sampled"
        )


def _repeated(responses: Sequence[Response]) -> Iterator[str]:
    """A warning if each response occurs several times, as when rows repeat."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for response in responses:
        counts[response.problem][response.text] += 1
    several = [texts for texts in counts.values() if texts.total() > 1]
    if not several:
        return
    if all(len(texts) == 1 for texts in several):
        yield (
            "warning: all responses to each problem are equal: either they were sampled at "
            "temperature 0, or rows repeat, such as those of two filters; Pass@k is then the same "
            "at each k (--format and --response-column choose what is read)"
        )
        return
    times = math.gcd(*(count for texts in counts.values() for count in texts.values()))
    if times > 1:
        yield (
            f"warning: every response occurs {times} times or a multiple of it; if rows repeat, "
            "such as those of two filters, they are counted twice (--format chooses what is read)"
        )


def no_answer_warning(
    texts: Sequence[str], without_answer: int, verifier: str, extract: Sequence[str] = BOX_ONLY
) -> Iterator[str]:
    """A warning if no response has an answer, or many have theirs at a place that is not read.

    Args:
        texts: the responses.
        without_answer: the number of responses in which the verifier found no answer.
        extract: the places of the answer in a response that it has read.
    """
    if without_answer < LARGE_SHARE * len(texts) or not without_answer:
        return
    unread = [text for text in texts if not final_answers(text, extract)]
    hint = _other_places(unread, extract, all_unread=without_answer == len(texts))
    if without_answer == len(texts):
        count = "no response has an answer"
        hint += "--response-column names the key of the response"
    elif hint:
        count = f"{without_answer} of {len(texts)} responses have no answer"
    else:
        return
    example = " ".join(next((text for text in unread if text.strip()), "").split())[-60:]
    shown = f", such as {example!r}" if example else ""
    read = "the last \\boxed{}" if tuple(extract) == BOX_ONLY else ", ".join(extract)
    yield f"warning: {count}{shown}: {verifier} reads {read}; {hint.removesuffix('; ')}"


def _other_places(unread: Sequence[str], extract: Sequence[str], all_unread: bool) -> str:
    """How many responses have an answer at other places, as the beginning of a hint.

    Args:
        unread: the responses without an answer at the places `extract`.
        all_unread: whether no response has one. Only then does the last number count, because a
            response that states no answer may have a number, too.
    """
    counts = {}
    for place in EXTRACTIONS:
        found = sum(bool(final_answers(text, [place])) for text in unread)
        if found and place not in extract:
            counts[place] = found
    last_number = counts.pop("last-number", 0)
    if not counts and all_unread:
        counts = _counts_of_bare_answers(unread, last_number)
    if not counts:
        return ""
    best = max(counts, key=lambda place: counts[place])
    places = ",".join(list(extract) + [best])
    listed = ", ".join(f"{place} finds one in {count}" for place, count in counts.items())
    return f"of these {len(unread)}, {listed}; --extract {places} reads {best} too; "


def _counts_of_bare_answers(unread: Sequence[str], last_number: int) -> dict[str, int]:
    """Counts for responses without words that announce an answer: they may be the answer itself."""
    bare = [text for text in unread if 0 < len(text.strip()) <= _LONGEST_BARE]
    if len(bare) == len(unread) and not any("\n" in text.strip() for text in bare):
        return {WHOLE: len(bare)}
    return {"last-number": last_number} if last_number else {}
