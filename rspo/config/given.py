"""The config keys that a run of Snakemake gets, and the `rspo` command of its rules.

Snakemake passes the experiment to the commands of its rules in an environment variable. An `rspo`
command reads it in `rspo.cli.options.load_experiment`.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rspo.config.merge import merge, parse_overrides
from rspo.core.errors import InputError

EXPERIMENT_VARIABLE = "RSPO_EXPERIMENT"
SET = "--config set"  # for messages
# The keys of the workflow itself. All other keys are keys of config/SCALE.yaml.
OWN_KEYS = ("scale", "mirror", "results", "replace", "set")
DEFAULT_SCALE = "tiny"


@dataclass(frozen=True)
class Given:
    """The keys that the user gave in Snakemake's `--config`, or in the `config` of a module.

    overrides: the settings that replace values of config/SCALE.yaml: what `set` contains, and all
        keys that are not in `OWN_KEYS`.
    results: the folder of the results; None for the folder of the scale.
    mirror: the folder to use instead of the Hugging Face hub; None for the hub.
    replace: whether the run may replace results that took long.
    """

    scale: str
    overrides: dict[str, Any]
    results: Path | None
    mirror: Path | None
    replace: bool

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Given":
        """Read the keys.

        Raises: InputError if one of `OWN_KEYS` has a wrong value.
        """
        _require_no_misspelling(config)
        results = config.get("results")
        mirror = config.get("mirror")
        for key in ("scale", "mirror"):  # such as scale=$SCALE without the variable
            if key in config and config[key] in (None, ""):
                raise InputError(f"{key} is empty; leave it out for the default")
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
        """The environment variable, with its value, that passes this experiment to `rspo` commands.

        The mapping is empty for the default experiment, which commands use if the variable is not
        set.
        """
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
        """The command `rspo` with the variable of this experiment in front.

        It is for the `shell` of a rule, where Snakemake replaces what is in single braces. So the
        braces of the experiment are doubled.
        """
        words = [f"{name}={shlex.quote(text)}" for name, text in self.environment.items()]
        words.append("rspo")
        return " ".join(words).replace("{", "{{").replace("}", "}}")


def _require_no_misspelling(config: Mapping[str, Any]) -> None:
    """Raises: InputError for an unknown key that resembles one of `OWN_KEYS` most.

    Other unknown keys are found with those of the config file, whose error lists its keys.
    """
    from rspo.config.schema import Config  # here, because it imports NumPy

    fields = tuple(Config.model_fields)
    for key in config:
        if key in OWN_KEYS or key in fields:
            continue
        for close in get_close_matches(key, OWN_KEYS + fields, n=1):
            if close in OWN_KEYS:
                raise InputError(
                    f"--config {key}={config[key]}: no such key; did you mean {close}?"
                )


def overrides_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides in the text of `set`, merged with those that are keys of the config themselves.

    Raises: InputError if `set` cannot be read, or if a key is both in `set` and outside of it.
    """
    plain = {key: value for key, value in config.items() if key not in OWN_KEYS}
    text = config.get("set")
    if text is None:
        return plain
    if not isinstance(text, str):
        raise InputError(f"{SET}={text!r}: expected text, such as set='training.steps=50 seeds=3'")
    nested = read_set(text)
    for key in _given_twice(plain, nested):  # the first one is enough for the message
        raise InputError(f"{SET}={text!r}: {key} is also given outside of `set`")
    return merge(plain, nested)


def read_set(text: str) -> dict[str, Any]:
    """Read the text of `set`: split it as a shell does, and read each part as `rspo --set` does.

    Raises: InputError if a part is not KEY=VALUE.
    """
    try:
        return parse_overrides(shlex.split(text), SET)
    except InputError as error:
        # A shell would split training={steps: 3} at the space.
        quotes = "; put quotes around a value with spaces" if set(text) & {"{", "["} else ""
        raise InputError(f"{error}{quotes}") from None
    except ValueError as error:  # of shlex, such as "No closing quotation"
        raise InputError(f"{SET}={text!r}: {error}") from None


def _given_twice(
    first: Mapping[str, Any], second: Mapping[str, Any], section: str = ""
) -> Iterator[str]:
    """Yield the nested keys that two mappings both have, such as `training.steps`."""
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
