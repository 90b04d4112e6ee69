"""Merge nested mappings of settings."""

from collections.abc import Mapping
from typing import Any


def merge(values: Mapping[str, Any], overrides: Mapping[Any, Any]) -> dict[str, Any]:
    """Merge nested mappings; other values of `overrides` replace those of `values`."""
    merged = dict(values)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged
