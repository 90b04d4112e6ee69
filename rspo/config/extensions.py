"""Extensions: Python files of the user that register objectives, rewards, figures and so on.

    extensions: [my_objective.py]

The config lists them, and every process that reads the config runs them first.
"""

import sys
import traceback
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import fingerprint

_run: set[Path] = set()  # by this process


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
            _run_file(path, file)
            _run.add(path)


def _run_file(path: Path, name: str) -> None:
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
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 1
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{name}, line {line}: {type(error).__name__}: {message}") from error
