"""Compares settings, which are plain data, and shortens lists in messages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Settings = dict[str, Any]
_SHOWN = 3  # the most differences, or other items, in a message
_LONGEST = 40  # the most characters of a value in a message


def differences(old: Any, new: Mapping[str, Any]) -> str:
    """The first settings that differ, as `KEY: OLD -> NEW`, and how many more there are.

    Args:
        old: the earlier settings, or any other data, if they were read from a damaged file.

    Returns: an empty string if none differs.
    """
    before = _as_text(old)
    after = _as_text(new)
    changes = []
    for key in after | before:
        if before.get(key) != after.get(key):
            old_value = _short(before.get(key, "none"))
            new_value = _short(after.get(key, "none"))
            changes.append(f"{key}: {old_value} -> {new_value}")
    return first_of(changes)


def _as_text(settings: Any) -> dict[str, str]:
    """The JSON of every value that is not a mapping, by its nested key."""
    return {key: json.dumps(value, default=str) for key, value in leaves(settings)}


def first_lines(lines: Sequence[str], limit: int) -> list[str]:
    """The first `limit` lines of a message, and a line that counts the rest, if there are more."""
    if len(lines) <= limit:
        return list(lines)
    return list(lines[:limit]) + [f"and {len(lines) - limit} more"]


def first_of(items: Sequence[str]) -> str:
    """The first `_SHOWN` items with commas between them, and how many more there are, if any."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def _short(text: str) -> str:
    """The text, cut to `_LONGEST` characters."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def leaves(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a mapping, with its nested key, such as `training.steps`."""
    if not isinstance(settings, Mapping):
        yield prefix.removesuffix("."), settings
        return
    for key, value in settings.items():
        yield from leaves(value, f"{prefix}{key}.")
