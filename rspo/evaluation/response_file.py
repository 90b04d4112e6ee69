"""Read a file of responses that any program sampled, one response a row."""

import hashlib
import io
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import numbered_json_lines
from rspo.datasets.own_file import Rows, rows_of
from rspo.evaluation.verification import Responses

STANDARD_INPUT = Path("-")


@dataclass(frozen=True)
class Columns:
    """Keys of the file."""

    problem: str = "problem"
    answer: str = "answer"
    response: str = "response"


@dataclass(frozen=True)
class ResponseFile:
    """The responses of a file, in its order.

    responses: the question is the text of the problem.
    answers: as they are in the file.
    content: SHA-256 of the standard input; empty for a file.
    """

    responses: Responses
    answers: list[Any]
    content: str = ""


def read_response_file(path: Path, columns: Columns) -> ResponseFile:
    """Read JSON lines, UTF-8 with or without a byte order mark, also compressed with gzip.

    A file with the suffix .csv or .parquet is read as such. Rows with the same problem text are
    responses to one problem.

    Args:
        path: `-` is the standard input, JSON lines.

    Raises: InputError for a file that is missing, empty or of another format, a key that is missing
        or has a value of the wrong type, or two different answers to one problem.
    """
    name, content = str(path), ""
    if path == STANDARD_INPUT:
        name, data = "standard input", sys.stdin.buffer.read()
        content = hashlib.sha256(data).hexdigest()
        numbered = numbered_json_lines(name, io.BytesIO(data))
        rows: Rows = ((f"line {number}", line) for number, line in numbered)
    else:
        rows = rows_of(path)
    result = ResponseFile(Responses([], [], []), [], content)
    answer_of: dict[str, Any] = {}
    for place, line in rows:
        location = f"{name}, {place}"
        _check_line(location, line, columns)
        problem, answer = line[columns.problem], line[columns.answer]
        if answer_of.setdefault(problem, answer) != answer:
            raise InputError(
                f"{location}: the answer {answer!r:.60} differs from {answer_of[problem]!r:.60}, "
                "given before for the same problem"
            )
        result.responses.texts.append(line[columns.response])
        result.responses.answers.append(_forms(answer))
        result.responses.questions.append(problem)
        result.answers.append(answer)
    if not result.answers:
        raise InputError(f"{name}: has no rows; at least one response is needed")
    return result


def _check_line(location: str, line: Mapping[str, Any], columns: Columns) -> None:
    """Raises: InputError unless problem and response are text and the answer has a valid form."""
    for field in fields(columns):
        key = getattr(columns, field.name)
        if key not in line:
            has = ", ".join(line) or "no keys"
            raise InputError(
                f"{location}: the key {key!r} is missing; has {has} "
                f"(--{field.name}-column names the key of the {field.name})"
            )
    for key in (columns.problem, columns.response):
        if not isinstance(line[key], str):
            raise InputError(f"{location}: {key!r} is {line[key]!r:.60}; expected text")
    answer = line[columns.answer]
    forms = _forms(answer)
    if not forms or not all(isinstance(form, str) and form.strip() for form in forms):
        raise InputError(
            f"{location}: {columns.answer!r} is {answer!r:.60}; "
            "expected text, number or list of them"
        )


def _forms(answer: Any) -> list[Any]:
    """Accepted forms of an answer; numbers become their JSON text."""
    forms = answer if isinstance(answer, list) else [answer]
    return [json.dumps(form) if _is_number(form) else form for form in forms]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
