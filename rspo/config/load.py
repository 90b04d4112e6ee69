"""Read a scale's config file and run its extensions. Each error is one line."""

import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rspo.config.merge import merge
from rspo.config.places import Places, Sources
from rspo.config.schema import Config, Section
from rspo.core.checkout import named_checkout
from rspo.core.errors import InputError
from rspo.core.files import fingerprint
from rspo.core.own_function import EXTENSION

NO_PLACES = Places()


def load_config(path: Path, overrides: Mapping[str, Any], places: Places) -> Config:
    """Read a config file, apply overrides, and validate every key.

    Args:
        overrides: settings that replace those of the file, nested as in the file. A null removes an
            entry of the grid.
        places: the files of the config, as `read_files` returns them, and where the overrides come
            from; messages about other overrides name a file.

    Raises: InputError with one line for each mistake.
    """
    values = _merged(places.files)
    merged = merge(values, overrides)
    # An override can remove entries of the grid, to run less.
    grid = values.get("grid")
    if isinstance(grid, Mapping) and isinstance(merged["grid"], Mapping):
        merged["grid"] = _without_removed(merged["grid"], grid)
    with errors_at(str(path), places):
        return config_of(merged, path.parent.parent, places.of(("extensions",)))


def read_values(path: Path) -> dict[str, Any]:
    """The keys of a config file, and those of the file that its key `include` names.

    The file's own keys replace included ones, at any depth.

    Raises: InputError if a file is missing, or is not YAML with keys and values.
    """
    return _merged(read_files(path))


def _merged(files: Sources) -> dict[str, Any]:
    """The keys of all files, of which later ones replace earlier ones."""
    values: dict[str, Any] = {}
    for of_file in files.values():
        values = merge(values, of_file)
    return values


def read_files(path: Path) -> dict[str, dict[str, Any]]:
    """The keys of the file that a config file includes, if any, and its own, by path.

    Raises: InputError as `read_values` does.
    """
    values = _read(path)
    name = values.pop("include", None)
    if name is None:
        return {str(path): values}
    if not isinstance(name, str) or not (path.parent / name).is_file():
        raise InputError(
            f"{path}: include = {name!r}: no such file; the path is relative to {path.parent}"
        )
    included = _read(path.parent / name)
    if "include" in included:
        raise InputError(f"{path.parent / name}: include: allowed only in the config of a scale")
    return {str(path.parent / name): included, str(path): values}


def _read(path: Path) -> dict[str, Any]:
    """The keys of one YAML file.

    Raises: InputError if there is no such file, or it is not YAML with keys and values.
    """
    try:
        values = yaml.load(path.read_text(), _Loader)
    except FileNotFoundError:
        scales = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        elsewhere = f"run this in the project's folder{named_checkout()}"
        hint = f"scales here: {scales}" if scales else elsewhere
        raise InputError(f"{path}: no such config file; {hint}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, got {type(values).__name__}")
    return values


def _without_removed(entries: Mapping[str, Any], in_file: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the grid without those of the file that an override has set to null.

    A null for an entry that the file lacks stays, so that validation reports the wrong name.
    """
    kept = {}
    for name, entry in entries.items():
        if entry is not None or name not in in_file:
            kept[name] = entry
    return kept


def config_of(values: Mapping[str, Any], root: Path, name: str) -> Config:
    """Run the extensions that a config lists, and validate every key.

    Extensions are Python files of the user, such as `extensions: [my_reward.py]`, which register
    objectives, rewards, figures and so on. Each runs once in every process that reads the config.

    Args:
        root: the folder that has config/. Paths of extensions are relative to it.
        name: the name of the config, for messages.

    Raises: InputError if an extension fails, and ValidationError if a value is wrong.
    """
    files = values.get("extensions", ())
    key = f"{name}: extensions"
    if not isinstance(files, list | tuple):
        raise InputError(f"{key} = {files!r}: expected a list of files, such as [my_reward.py]")
    for file in files:
        path = (root / str(file)).resolve()
        if path.suffix != ".py" or not path.is_file():
            raise InputError(
                f"{key} = {file!r}: no such file FILE.py; paths are relative to the folder that "
                "has config/"
            )
        _run_once(path, str(file))
    return Config.model_validate(values)


def _run_once(path: Path, name: str) -> None:
    """Run an extension unless this process has already run it.

    Args:
        name: the file as the config names it, for messages.

    Raises: InputError with the line of the extension, if it raises an error or ends the program.
    """
    # The file's own name may be that of an installed module, so the module gets another one.
    module_name = f"{EXTENSION}{path.stem}_{fingerprint(str(path))}"
    if module_name in sys.modules:
        return
    spec = spec_from_file_location(module_name, path)
    assert spec is not None  # because the file's name ends with .py
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # `dataclass` looks up the module of its class here
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[module_name]  # so that the next reading of the config runs it again
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else 1
        if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
            line = error.lineno
        reason = str(error)
        if isinstance(error, SystemExit):
            reason = "it ends the program"
        elif not isinstance(error, ValueError):
            reason = traceback.format_exception_only(error)[-1].strip()
        raise InputError(f"{name}, line {line}: {reason}") from error


class _Loader(yaml.SafeLoader):
    """Loads YAML like SafeLoader, except that a duplicate key is an error.

    YAML's own loader silently keeps the last value of a duplicate key.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises: YAMLError that names the line of a duplicate key."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: the key {key.value} is duplicated")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@contextmanager
def errors_at(place: str, places: Places = NO_PLACES) -> Iterator[None]:
    """Turn a ValidationError into InputError with one line for each mistake.

    Args:
        place: the file, or the file and the section. Each line begins with it, unless `places` has
            files.
        places: where the values of a whole config come from.
    """
    try:
        yield
    except ValidationError as error:
        raise InputError("\n".join(_lines(place, error.errors(), places))) from None


def _lines(place: str, problems: Sequence[Any], places: Places) -> Iterator[str]:
    """Yield a line for each error that pydantic lists, such as `FILE: KEY = VALUE: REASON`."""
    for problem in problems:
        location = problem["loc"]
        if any(_is_inside(other["loc"], location) for other in problems):
            continue  # it follows from the error inside
        key = ".".join(map(str, location))
        value = ""
        if not isinstance(problem["input"], dict | Section):  # a section would fill the screen
            value = f" = {problem['input']!r}"
        reason = problem["msg"].removeprefix("Value error, ")
        key_inside = tuple(location) + _key_in(reason)
        # An option that gives a section is responsible for what its values lead to there.
        found = places.option_of(key_inside) or places.option_of(location) or places.of(key_inside)
        line = f"{key}{value}: {reason}" if key else reason
        yield f"{found or place}: {line}"


def _key_in(reason: str) -> tuple[str, ...]:
    """The key at the beginning of a message about a section, as in `training.epochs = 0: ...`."""
    match = re.match(r"(?:unknown key )?([\w.-]+)(?: = |: )", reason)
    return tuple(match[1].split(".")) if match else ()


def _is_inside(inner: Sequence[Any], outer: Sequence[Any]) -> bool:
    """Whether a location in a config is part of the section at another location."""
    return len(inner) > len(outer) and inner[: len(outer)] == outer
