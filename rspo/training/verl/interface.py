"""Which verl this package is written for, and the check that this is the one that runs."""

import inspect
from collections.abc import Callable
from typing import Any

from rspo.errors import InputError

SUPPORTED_VERSION = "0.9.1"


def require_version() -> None:
    """Raises: InputError unless the installed verl is the one that this package overrides."""
    try:
        import verl
    except ImportError as error:
        raise InputError(
            f"engine: verl needs the package verl=={SUPPORTED_VERSION} ({error}); "
            "`make setup-verl` installs it"
        ) from None
    if verl.__version__ != SUPPORTED_VERSION:
        raise InputError(
            f"found verl {verl.__version__}; rspo supports verl {SUPPORTED_VERSION}: it overrides "
            "parts of verl that other versions may have moved"
        )


def require_parameters(function: Callable[..., Any], *names: str) -> None:
    """Raises: InputError unless a function of verl still takes exactly these parameters."""
    found = tuple(inspect.signature(function).parameters)
    if found != names:
        raise InputError(
            f"{function.__module__}.{function.__qualname__} of the installed verl takes "
            f"({', '.join(found)}); rspo supports verl {SUPPORTED_VERSION}, in which it takes "
            f"({', '.join(names)})"
        )
