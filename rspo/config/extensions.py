"""Extensions: Python files of the user that register objectives, rewards, figures and so on.

    extensions: [my_objective.py]

The config lists them, and every process that reads the config runs them first.
"""

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import fingerprint

_PACKAGE = Path(__file__).parents[1]
_run: dict[Path, str] = {}  # by this process, with their names in the config


def run_extensions(files: Iterable[str], root: Path, key: str) -> None:
    """Run each file once in this process.

    Args:
        root: the folder that has config/; the files are relative to it.
        key: location of the list, for messages.

    Raises: InputError that names a file that is missing, or the file and the line that failed.
    """
    for file in files:
        path = (root / file).resolve()
        if not path.is_file():
            raise InputError(
                f"{key} = {file!r}: no such file; paths are relative to the folder that has config/"
            )
        if path not in _run:
            _run[path] = file
            _run_file(path)


def place_of(error: BaseException) -> str | None:
    """Where and why a function of an extension failed, as "FILE, line N: ERROR"; else None.

    None also for an error of this package in a call from an extension, unless it is a ValueError:
    it may be a bug here, for which a user needs the traceback.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(_PACKAGE) and not isinstance(error, ValueError):
            return None
        if name := _run.get(file):
            return f"{name}, line {frame.lineno}: {type(error).__name__}: {error}"
    return None


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Calls a function that may be a user's own.

    Raises: InputError "WHAT: REASON" for a ValueError, and for any error of an extension.
    """
    try:
        yield
    except Exception as error:
        place = place_of(error)
        if place is None and not isinstance(error, ValueError):
            raise
        raise InputError(f"{what}: {place or error}") from error


def _run_file(path: Path) -> None:
    """Raises: InputError with the line of the file that failed."""
    # Not the file's own name, which may be that of an installed module.
    module_name = f"rspo_extension_{path.stem}_{fingerprint(str(path))}"
    spec = spec_from_file_location(module_name, path)
    assert spec is not None  # the config allows names that end with .py
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        line = f"{_run.pop(path)}, line {error.lineno}"
        raise InputError(f"{line}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        place = place_of(error)
        name = _run.pop(path)
        raise InputError(place or f"{name}: {type(error).__name__}: {error}") from error
