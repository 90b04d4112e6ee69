"""Merge nested mappings of settings, and read them from a command line."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from rspo.core.errors import InputError


def parse_overrides(items: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Read overrides: `["training.steps=5"]` becomes `{"training": {"steps": 5}}`.

    Values are YAML, so that `[1, 4]` is a list and `null` is None. If a key has several overrides,
    the last one counts; if their values differ, a line on standard error says so.

    Args:
        option: the option that has the overrides, for messages.

    Raises: InputError for an item that is not KEY=VALUE.
    """
    overrides: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {item}: expected KEY=VALUE, such as training.steps=50")
        try:
            value: Any = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"{option} {item}: {text!r} is not YAML") from None
        # From the inside to the outside: 5, then {"steps": 5}, then {"training": {"steps": 5}}.
        for section in reversed(key.split(".")):
            value = {section: value}
        for contradiction in _contradictions(overrides, value):
            line = f"rspo: {option} {item}: {contradiction}; the last value counts"
            print(line, file=sys.stderr, flush=True)
        overrides = merge(overrides, value)
    return overrides


def _contradictions(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Words for each key to which two mappings give different values."""
    for key, value, other in given_twice(first, second):
        if value != other:
            yield f"{key} is also given as {value!r:.60}"


def given_twice(
    first: Mapping[str, Any], second: Mapping[str, Any], section: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the nested keys that two mappings both have, such as `training.steps`, with values."""
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping) and isinstance(second[key], Mapping):
            yield from given_twice(first[key], second[key], f"{section}{key}.")
        else:
            yield f"{section}{key}", first[key], second[key]


def merge(values: Mapping[str, Any], overrides: Mapping[Any, Any]) -> dict[str, Any]:
    """A copy of `values` in which `overrides` replace values, at any depth of nested mappings.

    A list is replaced as a whole.
    """
    merged = dict(values)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged
