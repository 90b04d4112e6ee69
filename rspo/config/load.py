"""Read a scale's config file, apply overrides, and report errors in one line each."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from rspo.config.extensions import run_extensions
from rspo.config.merge import merge
from rspo.config.schema import Config, Evaluation, Section
from rspo.core.errors import InputError, allowed_names, did_you_mean, plainly


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
    grid, changes = values.get("grid"), overrides.get("grid")
    if isinstance(grid, Mapping) and isinstance(changes, Mapping):
        for name, entry in changes.items():
            if entry is None and name not in grid:  # null leaves an entry out
                raise InputError(f"{path}: grid has no {name!r}; {allowed_names(name, grid)}")
    try:
        config = config_of(merge(values, overrides), path.parent.parent, str(path))
    except ValidationError as error:
        raise _input_error(path, error, overrides) from None
    for name in config.variants:
        try:
            config.of_variant(name)
        except ValidationError as error:
            # Whether settings fit together depends on overrides too: `variant_config` tells the
            # cells that have the variant.
            if any(problem["type"] != "value_error" for problem in error.errors()):
                raise _input_error(f"{path}: variants.{name}", error, {}) from None
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
        raise _input_error(f"{path}: variants.{name}", error, {}) from None


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
        raise _input_error(f"{path}: studies.{name}", error, {}) from None
    return config.model_copy(update={"evaluation": evaluation})


def config_of(values: Mapping[str, Any], root: Path, name: str) -> Config:
    """Run the extensions that a config lists, and validate every key.

    Args:
        root: the folder that has config/.
        name: of the config, for messages about extensions.

    Raises: ValidationError; InputError for an extension that is missing or fails.
    """
    extensions = values.get("extensions", ())
    if isinstance(extensions, Sequence) and all(isinstance(file, str) for file in extensions):
        files = [file for file in extensions if file.endswith(".py")]
        run_extensions(files, root, f"{name}: extensions")
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


def _input_error(
    place: Path | str, error: ValidationError, overrides: Mapping[str, Any]
) -> InputError:
    """One line for each mistake; keys with the same mistake share a line."""
    keys: dict[str, list[str]] = {}
    for problem in _causes(error.errors()):
        key, message = _explain(problem, overrides)
        keys.setdefault(message, []).append(key)
    return InputError("\n".join(f"{place}: {', '.join(k)}{m}" for m, k in keys.items()))


def _causes(problems: list[Any]) -> list[Any]:
    """Drop errors that follow from another; any may follow from extensions that did not run."""
    if of_extensions := [one for one in problems if one["loc"][:1] == ("extensions",)]:
        return of_extensions
    return [one for one in problems if not any(_follows(one, other) for other in problems)]


def _follows(problem: Any, other: Any) -> bool:
    """Whether an error follows from another, inside its section or of a key's misspelling."""
    here, there = problem["loc"], other["loc"]
    if (problem["type"], other["type"]) == ("missing", "extra_forbidden"):
        return here[:-1] == there[:-1] and bool(did_you_mean(str(there[-1]), here[-1:]))
    return len(there) > len(here) and there[: len(here)] == here


def _explain(problem: Any, overrides: Mapping[str, Any]) -> tuple[str, str]:
    """One of pydantic's errors: key and value, then what is wrong or allowed."""
    location = [part for part in problem["loc"] if part not in ("int", "tuple[int, ...]")]
    key = ".".join(str(part) for part in location)
    origin = " (given on the command line)" if location and location[0] in overrides else ""
    if problem["type"] == "extra_forbidden":
        hint = allowed_names(str(location[-1]), _keys_at(location[:-1]))
        return f"unknown key {key} = {problem['input']!r}{origin}", f"; {hint}"
    if problem["type"] == "missing":
        return f"{key} is missing{origin}", ""
    ours = problem["msg"].removeprefix("Value error, ")
    message = plainly(ours) if ours == problem["msg"] else ours
    if problem["type"] == "literal_error":
        names = re.findall("'(.*?)'", problem["ctx"]["expected"])
        message = allowed_names(str(problem["input"]), names)
    if not location:  # of several sections, which the message names
        return "", message
    value = "" if isinstance(problem["input"], (dict, Section)) else f" = {problem['input']!r}"
    return f"{key}{value}{origin}", f": {message}"


def _keys_at(location: list[Any]) -> list[str]:
    """The keys allowed in the section at a location of the config."""
    section: type[Section] = Config
    for part in location:
        if field := section.model_fields.get(part):  # otherwise a key or index of several sections
            section = _section_in(field.annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[Section] | None:
    """The section of an annotation such as dict[Name, Section] or Section | None."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
