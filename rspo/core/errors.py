"""Exceptions that the `rspo` command prints as one line, and suggestions for mistyped names."""

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """The config, data or command line is wrong; the message names the value and what is allowed.

    The `rspo` command prints it as one line, with status 2. Other exceptions keep their traceback.
    """


class LostProcess(RuntimeError):
    """A process or node that a run needs has died; the message names it.

    The `rspo` command prints it as one line, with status 1. The same command resumes the run.
    """


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Turn a ValueError of the block into an InputError with the message "WHAT: REASON".

    The block calls a function that may raise a ValueError without naming its place, such as a
    function of the user.
    """
    try:
        yield
    except ValueError as error:
        raise InputError(f"{what}: {error}") from error


def allowed_names(name: str, allowed: Collection[str]) -> str:
    """The end of a message about a wrong name: a suggestion, and the names that are allowed."""
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"did you mean {close[0]}? Allowed" if close else "allowed"
    return f"{hint}: {', '.join(allowed) or 'none'}"


def require_name(what: str, name: str, allowed: Collection[str]) -> None:
    """Raises: InputError with "no WHAT; ..." if a name is not allowed (see `allowed_names`)."""
    if name not in allowed:
        raise InputError(f"no {what}; {allowed_names(name, allowed)}")
