"""Read a scale's config file, apply overrides, and report errors in one line each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rspo.config.extensions import run_extensions
from rspo.config.merge import merge
from rspo.config.schema import Config, Evaluation, Section
from rspo.core.errors import InputError


def load_config(path: Path, overrides: Mapping[str, Any]) -> Config:
    """Read a config file, apply overrides (a nested mapping), and validate every key.

    Raises: InputError that names the file, the key, the value and what is allowed.
    """
    try:
        values = yaml.load(path.read_text(), _Loader)
    except FileNotFoundError:
        scales = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        hint = f"scales here: {scales}" if scales else "run this in the project's folder"
        raise InputError(f"{path}: no such config file; {hint}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, got {type(values).__name__}")
    merged, grid = merge(values, overrides), values.get("grid")
    if isinstance(grid, Mapping) and isinstance(merged["grid"], Mapping):  # null removes an entry
        entries = merged["grid"].items()
        merged["grid"] = {key: one for key, one in entries if one is not None or key not in grid}
    try:
        config = config_of(merged, path.parent.parent, str(path))
    except ValidationError as error:
        raise _input_error(str(path), error) from None
    for name in config.variants:
        try:
            config.of_variant(name)
        except ValidationError as error:
            # Whether settings fit together depends on overrides too: `variant_config` tells the
            # cells that have the variant.
            if any(problem["type"] != "value_error" for problem in error.errors()):
                raise _input_error(f"{path}: variants.{name}", error) from None
    return config


def variant_config(config: Config, name: str, path: str) -> Config:
    """The config that the cells of a variant are trained with.

    Args:
        path: of the config file, for messages.

    Raises: InputError for settings that do not fit together, or that the engine does not support.
    """
    try:
        return config.of_variant(name)
    except ValidationError as error:
        raise _input_error(f"{path}: variants.{name}", error) from None


def study_config(config: Config, name: str, path: str) -> Config:
    """The config with a study's own samples and k in `evaluation`.

    Args:
        path: of the config file, for messages.

    Raises: InputError for samples that are not whole blocks, or too few for its k.
    """
    own = config.studies[name].model_dump(include={"samples", "k"}, exclude_none=True)
    try:
        evaluation = Evaluation.model_validate(config.evaluation.model_dump() | own)
    except ValidationError as error:
        raise _input_error(f"{path}: studies.{name}", error) from None
    return config.model_copy(update={"evaluation": evaluation})


def config_of(values: Mapping[str, Any], root: Path, name: str) -> Config:
    """Run the extensions that a config lists, and validate every key.

    Args:
        root: the folder that has config/.
        name: of the config, for messages about extensions.

    Raises: ValidationError; InputError for an extension that is missing.
    """
    run_extensions(values.get("extensions", ()), root, f"{name}: extensions")
    return Config.model_validate(values)


class _Loader(yaml.SafeLoader):
    """YAML in which duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: the key {key.value} is duplicated")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _input_error(place: str, error: ValidationError) -> InputError:
    """A line for each mistake, with its key, its value unless it is a section, and the reason."""
    problems, lines = error.errors(), []
    for problem in problems:
        place_in, given = problem["loc"], problem["input"]
        deeper = (one["loc"] for one in problems if len(one["loc"]) > len(place_in))
        if any(other[: len(place_in)] == place_in for other in deeper):
            continue  # it follows from the error inside
        key = ".".join(map(str, place_in))
        value = "" if isinstance(given, dict | Section) else f" = {given!r}"
        reason = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {key}{value}: {reason}" if key else f"{place}: {reason}")
    return InputError("\n".join(lines))
