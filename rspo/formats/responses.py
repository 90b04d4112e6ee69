"""Reads what a verifier needs: each response, its problem and its answer."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.formats.answers import Gold, read_answers
from rspo.formats.layouts import PLAIN
from rspo.formats.paths import is_chat, text_of
from rspo.formats.problems import checked_answer, id_of, problem_text
from rspo.formats.rows import Row
from rspo.formats.source import Reading, Source, how_read, open_source, unlike_files
from rspo.formats.verified_response import verdicts_of
from rspo.rewards import Answer


@dataclass(frozen=True)
class Response:
    """A response to verify.

    question: the text of its problem.
    answers: accepted forms of the answer, as `rspo.rewards.verify` takes them.
    text: the response; empty if there is none.
    id: the id of its problem, if the row has one.
    by_id: whether responses are grouped by the id instead of the text.
    correct: the verdict that the file has on the response; None if it has none.
    """

    question: str
    answers: Answer
    text: str
    id: str = ""
    by_id: bool = False
    correct: bool | None = None

    @property
    def problem(self) -> str:
        """What responses to the same problem have in common: its text or its id."""
        return self.id if self.by_id else self.question


def read_responses(
    paths: Sequence[Path],
    reading: Reading = Reading(),  # noqa: B008
) -> tuple[list[Response], list[str]]:
    """Read the responses of the files of a run, and check that every problem has a single answer.

    Rows with the same problem text are responses to one problem; with `reading.problem` as the path
    of an id, rows with the same id. A row may have several responses, as a list. A response that is
    null is an empty text.

    Returns: the responses, and lines that say in which layouts they were.

    Raises: InputError for files without rows, for a row that lacks a key or whose value has another
        type, and for two different answers to one problem.
    """
    gold = read_answers(reading.answers, reading) if reading.answers else None
    responses: list[Response] = []
    sources = []
    answer_of: dict[str, Any] = {}
    problems_of: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        source = open_source(path, reading)
        sources.append(source)
        for row, response in responses_of(source, gold):
            require_one_answer(source, row, response, answer_of)
            responses.append(response)
            problems_of[source.layout.name].add(response.problem)
    if not responses:
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: has no rows; at least one response is needed")
    notes = list(how_read(sources))
    notes.extend(unlike_files(problems_of))
    return responses, notes


def responses_of(source: Source, gold: Gold | None = None) -> Iterator[tuple[Row, Response]]:
    """The responses of a file, each with its row.

    Args:
        gold: the answers by the ids of problems, if another file has them.

    Raises: InputError for a row that lacks a key or whose value has another type.
    """
    columns = source.columns
    has_verdicts_only = source.has("correct") and not source.has("answer")
    is_meant = source.layout is not PLAIN or source.stated_verdicts
    if gold is None and has_verdicts_only and is_meant:
        raise InputError(
            f"{source.path}: has verdicts ({columns['correct']}) and no answers; `rspo pass-at-k` "
            "reads the verdicts, --answers FILE names a file with the answers"
        )
    for row in source.rows:
        problem = problem_text(row, columns["problem"], _hint("problem"))
        by_id = gold is not None or "question" in columns
        question = problem
        if "question" in columns:
            question = problem_text(row, columns["question"])
        if gold is None:
            answer = checked_answer(row, source.path_of("answer"), _hint("answer"))
        else:
            answer = gold.answer(row, problem)
            question = gold.questions.get(problem, question)
        problem_id = problem if by_id else id_of(row, columns.get("id"))
        texts = _texts(row, source.path_of("response"))
        verdicts = _verdicts(row, source, len(texts))
        for text, correct in zip(texts, verdicts, strict=True):
            yield row, Response(question, answer, text, problem_id, by_id, correct)


def _verdicts(row: Row, source: Source, number: int) -> list[bool | None]:
    """The verdicts that a row has on its responses; None for each if it has none.

    Verdicts in rows of the user's own are read if an option names them: the output of `rspo verify`
    may be verified again.

    Raises: InputError if an option names verdicts, and a row lacks them.
    """
    if not source.stated_verdicts and (source.layout is PLAIN or not source.has("correct")):
        return [None] * number
    key = source.path_of("correct")
    try:
        verdicts = verdicts_of(row, key)
        if len(verdicts) != number:
            raise row.refuse(key, f"{number} verdicts, one for each response")
    except InputError:
        if source.stated_verdicts:
            raise
        return [None] * number
    return list(verdicts)


def require_one_answer(
    source: Source, row: Row, response: Response, answer_of: dict[str, Any]
) -> None:
    """Raises: InputError for an answer that differs from that of the same problem in `answer_of`.

    Adds the answer of a new problem to `answer_of`.
    """
    first_answer = answer_of.setdefault(response.problem, response.answers)
    if response.answers != first_answer:
        hint = ""
        if not response.by_id and source.has("id"):
            hint = f" (--problem-column {source.columns['id']} groups responses by id)"
        raise InputError(
            f"{row}: the answer {response.answers!r:.60} differs from {first_answer!r:.60}, given "
            f"before for the same problem{hint}"
        )


def _texts(row: Row, key: str) -> list[str]:
    """The responses of a row: one, or a list of several; null is an empty text."""
    value = row.value(key, _hint("response"))
    several = isinstance(value, list) and not is_chat(value)
    texts = []
    for item in value if several else [value]:
        text = text_of(item)
        texts.append("" if text is None else text)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise row.refuse(
            key, "text, or a list with a text for each response" if several else "text"
        )
    return texts


def _hint(name: str) -> str:
    """The end of a message about a missing key."""
    return f" (--{name}-column names the key of the {name})"
