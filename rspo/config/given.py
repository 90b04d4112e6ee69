"""The config keys that a run of Snakemake gets, and the `rspo` command of its rules."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config.merge import merge, parse_overrides
from rspo.core.errors import InputError

# The environment variable with which Snakemake passes its experiment to the commands of its rules.
EXPERIMENT_VARIABLE = "RSPO_EXPERIMENT"
SET = "--config set"
OWN_KEYS = ("scale", "mirror", "results", "replace", "set")
DEFAULT_SCALE = "tiny"


@dataclass(frozen=True)
class Given:
    """The keys of Snakemake's `--config`, or of the `config` of a module.

    overrides: keys of config/SCALE.yaml: those in `set`, and all keys that are not in `OWN_KEYS`.
    results: folder of the results; None: the folder of the scale.
    mirror: folder to use instead of the Hugging Face hub.
    replace: whether results that took long may be replaced.
    """

    scale: str
    overrides: dict[str, Any]
    results: Path | None
    mirror: Path | None
    replace: bool

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Given":
        """Read the keys.

        Raises: InputError for a wrong value of one of `OWN_KEYS`.
        """
        results = config.get("results")
        mirror = config.get("mirror")
        if "results" in config and not results:
            raise InputError("results is empty; expected a folder, such as results=trial")
        return cls(
            scale=str(config.get("scale", DEFAULT_SCALE)),
            overrides=overrides_of(config),
            results=Path(str(results)) if results else None,
            mirror=Path(str(mirror)) if mirror else None,
            replace=_true_or_false("replace", config.get("replace", False)),
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variable with which an `rspo` command reads this experiment; none for the default."""
        keys: dict[str, Any] = {}
        if self.scale != DEFAULT_SCALE:
            keys["scale"] = self.scale
        if self.overrides:
            keys["set"] = self.overrides
        if self.results is not None:
            keys["results"] = str(self.results)
        return {EXPERIMENT_VARIABLE: json.dumps(keys, default=str)} if keys else {}

    @property
    def command(self) -> str:
        """`rspo` with this experiment, for the `shell` of a rule, where braces are doubled."""
        words = [f"{name}={shlex.quote(text)}" for name, text in self.environment.items()]
        words.append("rspo")
        return " ".join(words).replace("{", "{{").replace("}", "}}")


def overrides_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides in `set`, and those that have a `--config KEY=VALUE` of their own.

    Raises: InputError for a key that is in `set` and outside of it.
    """
    plain = {key: value for key, value in config.items() if key not in OWN_KEYS}
    text = config.get("set")
    if text is None:
        return plain
    if not isinstance(text, str):
        raise InputError(f"{SET}={text!r}: expected text, such as set='training.steps=50 seeds=3'")
    nested = read_set(text)
    for key in _given_twice(plain, nested):
        raise InputError(f"{SET}={text!r}: {key} is also given outside of `set`")
    return merge(plain, nested)


def read_set(text: str) -> dict[str, Any]:
    """Read overrides: a shell's rules split the text, and `rspo --set` reads each part."""
    try:
        return parse_overrides(shlex.split(text), SET)
    except InputError as error:
        quotes = "; put quotes around a value with spaces" if set(text) & {"{", "["} else ""
        raise InputError(f"{error}{quotes}") from None
    except ValueError as error:  # of shlex, such as "No closing quotation"
        raise InputError(f"{SET}={text!r}: {error}") from None


def _given_twice(
    first: Mapping[str, Any], second: Mapping[str, Any], section: str = ""
) -> Iterator[str]:
    """The nested keys that two mappings both have, such as `training.steps`."""
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping) and isinstance(second[key], Mapping):
            yield from _given_twice(first[key], second[key], f"{section}{key}.")
        else:
            yield f"{section}{key}"


def _true_or_false(key: str, value: Any) -> bool:
    """Read a truth value, which may be text: Snakemake reads `true` and `false` as text.

    Raises: InputError for any other value.
    """
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InputError(f"{key} = {value!r}: expected true or false")
    return text == "true"
