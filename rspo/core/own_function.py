"""Functions of the user: load one that a command line names, and find the file of another."""

import inspect
import runpy
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rspo.core.checkout import package_folder
from rspo.core.errors import InputError
from rspo.passk import WeightFunction

EXTENSION = "rspo_extension_"  # begins the names of the modules of extensions


def function_of(name: str) -> WeightFunction:
    """Run a Python file and return one of its functions.

    The file may import other files of its folder.

    Args:
        name: the file and the function, as FILE.py:FUNCTION.

    Raises: InputError that says in one line what is wrong with the name or the file.
    """
    place, _, attribute = name.rpartition(":")
    if not place.endswith(".py") or not Path(place).is_file():
        raise InputError(f"{name}: no file {place!r}; allowed: FILE.py:FUNCTION")
    folder = str(Path(place).resolve().parent)
    sys.path.insert(0, folder)
    try:
        names: dict[str, Any] = runpy.run_path(place)
    except Exception as error:  # the user's file may raise any error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{place} failed: {reason}") from error
    finally:
        sys.path.remove(folder)
    function = names.get(attribute)
    if not callable(function):
        functions = [key for key, value in names.items() if callable(value) and key[0] != "_"]
        raise InputError(f"{place} has no function {attribute!r}; has {', '.join(functions)}")
    weight_function: WeightFunction = function
    return weight_function


def own_error(error: BaseException) -> str | None:
    """Words for an error that a user's extension raised, with the frames of extensions only.

    Returns: lines, of which the first has the place and the error; None if the error comes from
        elsewhere.
    """
    files = set()
    for name, module in list(sys.modules.items()):
        if name.startswith(EXTENSION) and module.__file__:
            files.add(module.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in files]
    if not own:
        return None
    last = own[-1]
    reason = traceback.format_exception_only(error)[-1].strip()
    first = f"{_shown(last.filename)}, line {last.lineno}, in {last.name}: {reason}"
    lines = [first]
    for frame in own:
        lines.append(f"    {_shown(frame.filename)}, line {frame.lineno}: {frame.line}")
    return "\n".join(lines)


def _shown(name: str) -> Path:
    """A file as a user names it: relative to the current folder, if it is below it."""
    file = Path(name)
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def file_of(function: Callable[..., Any]) -> Path | None:
    """The user's file that defines a function, relative to the current folder if it is below it.

    Returns: None for a function of this package, and for one without a source file.
    """
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isfunction(function):  # an object that can be called; its class has the code
        function = type(function).__call__
    try:
        file = Path(inspect.getfile(function)).resolve()
    except TypeError:  # it is written in C
        return None
    if file.is_relative_to(package_folder() / "rspo") or not file.is_file():
        return None
    return _shown(str(file))
