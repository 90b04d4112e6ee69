"""Values of a row that are reached by a path, such as `doc.problem` or `resps.0`."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

_INDEX = re.compile(r"-?\d+")


def reach(value: Any, path: str) -> Any:
    """The value at the end of a path.

    The parts of a path are joined by dots. A part is a key of a mapping, and a key may have dots
    itself; or it is the index of an item of a list, such as 0, or -1 for the last one; or it is *
    for all items. Where a part is a key and the value a list, the result is the list of what each
    item has under that key. A text that is a list or a mapping in JSON or Python counts as what it
    says.

    Returns: the value; None if a value on the way is null.

    Raises: KeyError if nothing is at the path.
    """
    if value is None:
        return None
    if isinstance(value, str):
        value = parsed(value)
    if isinstance(value, Mapping):
        return _reach_key(value, path)
    if not isinstance(value, list):
        raise KeyError(path)
    index, _, rest = path.partition(".")
    if index == "*":
        return [reach(item, rest) for item in value] if rest else value
    if not _INDEX.fullmatch(index):
        return [reach(item, path) for item in value]
    try:
        item = value[int(index)]
    except IndexError:
        raise KeyError(path) from None
    return reach(item, rest) if rest else item


def _reach_key(value: Mapping[str, Any], path: str) -> Any:
    """The value at a path that begins with a key; the longest key that fits is taken."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        key = ".".join(parts[:number])
        if key in value:
            rest = ".".join(parts[number:])
            return reach(value[key], rest) if rest else value[key]
    raise KeyError(path)


def has(value: Any, path: str) -> bool:
    """Whether something is at a path; null counts."""
    try:
        reach(value, path)
    except KeyError:
        return False
    return True


def parsed(text: str) -> Any:
    """The list or mapping that a text says in JSON or Python; other texts stay as they are."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def text_of(value: Any) -> Any:
    """The text of a message or chat: the content of its last message.

    A content that is a list of parts, as some APIs have it, is the text of its parts, without those
    that are reasoning or pictures. Values that are no chat stay as they are.
    """
    if is_chat(value):
        return text_of(value[-1])
    if isinstance(value, Mapping) and "role" in value and "content" in value:
        content = value["content"]
        return _text_of_parts(content) if isinstance(content, list) else content
    return value


def is_chat(value: Any) -> bool:
    """Whether a value is a conversation: a list of messages with `role` and `content`.

    Several messages that are all of the assistant are the choices of an API, which are responses.
    """
    if not isinstance(value, list) or not value:
        return False
    for item in value:
        if not isinstance(item, Mapping) or not {"role", "content"} <= item.keys():
            return False
    roles = {item["role"] for item in value}
    return len(value) == 1 or roles != {"assistant"}


def _text_of_parts(parts: list[Any]) -> str:
    """The texts of the parts of a message, joined."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts)
