"""Load a function of the user, which a command line names as FILE.py:FUNCTION."""

import runpy
import sys
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.passk import WeightFunction


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
