"""The layout that `rspo verify` reads: each row has a response, its problem and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.formats.rows import Row, rows_of
from rspo.rewards import Answer, texts_of

# Each value that a row must have -> the default key of this value in the row. The options
# --problem-column, --answer-column and --response-column name other keys.
COLUMNS = {"problem": "problem", "answer": "answer", "response": "response"}


@dataclass(frozen=True)
class Response:
    """A response to verify.

    question: the text of its problem.
    answers: accepted forms of the answer, as `rspo.rewards.verify` takes them.
    """

    question: str
    answers: Answer
    text: str


def read_responses(path: Path, columns: Mapping[str, str]) -> list[Response]:
    """Read the responses of a file, and check that every problem has a single answer.

    A file with the suffix .csv or .parquet is read as such, any other as JSON lines in UTF-8, with
    or without a byte order mark, and perhaps compressed with gzip. Rows with the same problem text
    are responses to one problem.

    Args:
        columns: like `COLUMNS`, with the keys that the rows of the file have.

    Raises: InputError for a file without rows, for a row that lacks a key or whose value has
        another type, and for two different answers to one problem.
    """
    responses: list[Response] = []
    answer_of: dict[str, Any] = {}
    for row in rows_of(path):
        problem = _text(row, columns["problem"], "problem")
        answer = _answer(row, columns["answer"])
        text = _text(row, columns["response"], "response")
        first_answer = answer_of.setdefault(problem, answer)
        if answer != first_answer:
            raise InputError(
                f"{row}: the answer {answer!r:.60} differs from {first_answer!r:.60}, given before "
                "for the same problem"
            )
        responses.append(Response(problem, answer, text))
    if not responses:
        raise InputError(f"{path}: has no rows; at least one response is needed")
    return responses


def _text(row: Row, key: str, name: str) -> str:
    """The text under a key of a row; `name` says in messages which value of `COLUMNS` it is."""
    value = row.value(key, _hint(name))
    if not isinstance(value, str):
        raise row.refuse(key, "text")
    return value


def _answer(row: Row, key: str) -> Any:
    """The answer as the file has it: text, a number or a list of accepted forms."""
    value = row.value(key, _hint("answer"))
    forms = texts_of(value)
    are_texts = all(isinstance(form, str) and form.strip() for form in forms)
    if not forms or not are_texts:
        raise row.refuse(key, "text, number or list of them, not empty")
    return value


def _hint(name: str) -> str:
    """The end of a message about a missing key."""
    return f" (--{name}-column names the key of the {name})"
