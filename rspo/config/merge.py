"""Merge nested mappings of settings, and read them from a command line."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from rspo.core.errors import InputError


def parse_overrides(items: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """`["training.steps=5"]` -> `{"training": {"steps": 5}}`; values are read as YAML."""
    overrides: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {item}: expected KEY=VALUE, such as training.steps=50")
        try:
            value: Any = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"{option} {item}: {text!r} is not YAML") from None
        for section in reversed(key.split(".")):
            value = {section: value}
        overrides = merge(overrides, value)
    return overrides


def merge(values: Mapping[str, Any], overrides: Mapping[Any, Any]) -> dict[str, Any]:
    """Merge nested mappings; other values of `overrides` replace those of `values`."""
    merged = dict(values)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged
