"""Extensions: Python files of the user that register objectives, rewards, figures and so on.

    extensions: [my_objective.py]

The config lists them, and every process that reads the config runs them first.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import fingerprint


def run_extensions(files: Any, root: Path, key: str) -> None:
    """Run each file once in this process; its errors keep their traceback.

    Args:
        files: the list in the config, before its validation.
        root: the folder that has config/; the files are relative to it.
        key: location of the list, for messages.

    Raises: InputError for a list that is none, and for a file that is missing.
    """
    if not isinstance(files, list | tuple):
        raise InputError(f"{key} = {files!r}: expected a list of files, such as [my_reward.py]")
    for file in files:
        path = (root / str(file)).resolve()
        if path.suffix != ".py" or not path.is_file():
            raise InputError(
                f"{key} = {file!r}: no such file FILE.py; paths are relative to the folder that "
                "has config/"
            )
        # Not the file's own name, which may be that of an installed module.
        name = f"rspo_extension_{path.stem}_{fingerprint(str(path))}"
        if name in sys.modules:
            continue
        spec = spec_from_file_location(name, path)
        assert spec is not None  # of a file that ends with .py
        assert spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)  # dataclasses look their module up
        spec.loader.exec_module(module)


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Calls a function that may be a user's own.

    Raises: InputError "WHAT: REASON" for a ValueError. Other errors keep their traceback.
    """
    try:
        yield
    except ValueError as error:
        raise InputError(f"{what}: {error}") from error
