"""Checks of the values of a row that say its problem: the text, the id and the answer."""

from typing import Any

from rspo.formats.paths import has, text_of
from rspo.formats.rows import Row
from rspo.rewards import digits, texts_of

PROBLEM_HINT = " (--problem-column names the key of the problem)"  # the end of a message


def problem_text(row: Row, key: str, hint: str = "") -> str:
    """The text of a problem, or its id, which may be a number; of a chat, the last message.

    Raises: InputError for any other value, and if the row lacks the key; `hint` ends the message.
    """
    value = digits(text_of(row.value(key, hint)))
    if not isinstance(value, str):
        raise row.refuse(key, "text")
    return value


def id_of(row: Row, key: str | None) -> str:
    """The id of a row's problem; empty if it has none."""
    if key is None or not has(row.values, key):
        return ""
    value = digits(row.value(key))
    return value if isinstance(value, str) else ""


def checked_answer(row: Row, key: str, hint: str = "") -> Any:
    """The answer under a key of a row.

    Raises: InputError unless it is text, a number or a list of them, and not empty.
    """
    value = row.value(key, hint)
    forms = texts_of(value)
    are_texts = all(isinstance(form, str) and form.strip() for form in forms)
    if not forms or not are_texts:
        raise row.refuse(key, "text, number or list of them, not empty")
    return value
