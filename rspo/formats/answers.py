"""Reads answers from a file of their own, by the ids of the problems."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.formats.layouts import PLAIN
from rspo.formats.paths import has
from rspo.formats.problems import checked_answer, problem_text
from rspo.formats.rows import Row, rows_of
from rspo.formats.source import Reading

# Where the rows have the answer and the text of the problem, if no option says so.
_ANSWERS = (
    "answer",
    "expected_answer",
    "gold",
    "gt",
    "target",
    "ground_truth",
    "reward_model.ground_truth",
)
_QUESTIONS = ("problem", "question", "prompt")


@dataclass(frozen=True)
class Gold:
    """The answers of a file by the ids of their problems, and the texts of those that have one."""

    path: Path
    answers: Mapping[str, Any]
    questions: Mapping[str, str]

    def answer(self, row: Row, problem: str) -> Any:
        """The answer to the problem of a row.

        Raises: InputError if the file has none.
        """
        if problem not in self.answers:
            example = next(iter(self.answers))
            raise InputError(
                f"{row}: {self.path} has no answer for {problem!r:.60}; it has those for "
                f"{example!r:.60} and others (--problem-column names the key of the id)"
            )
        return self.answers[problem]


def read_answers(path: Path, reading: Reading) -> Gold:
    """Read the answers of a file.

    The ids are under the key that `reading.problem` names, or under `id` and its like; the answers
    are under that of `reading.answer`, or under `answer` and its like.

    Raises: InputError for a file without rows, for a row that lacks an id or an answer, and for two
        different answers with one id.
    """
    answers: dict[str, Any] = {}
    questions: dict[str, str] = {}
    for row in rows_of(path):
        key = _key(row, (reading.problem or "id",) + PLAIN.id + _QUESTIONS)
        problem = problem_text(row, key)
        answer = checked_answer(row, _key(row, (reading.answer or "answer",) + _ANSWERS))
        if answers.setdefault(problem, answer) != answer:
            raise InputError(f"{row}: another answer to {problem!r:.60} is in a row before")
        texts = [name for name in _QUESTIONS if has(row.values, name) and name != key]
        if texts:
            questions[problem] = problem_text(row, texts[0])
    if not answers:
        raise InputError(f"{path}: has no rows; at least one answer is needed")
    return Gold(path, answers, questions)


def _key(row: Row, keys: tuple[str, ...]) -> str:
    """The first of some keys that a row has; the first of all if it has none."""
    present = [key for key in keys if has(row.values, key)]
    return present[0] if present else keys[0]
