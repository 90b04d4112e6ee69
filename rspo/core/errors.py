"""The exceptions that a user sees as one line, and the names that a mistyped one may mean."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad config, data or command line: the message names what was found and what is allowed.

    The `rspo` command prints it as one line and exits with 2; anything else is a bug and keeps
    its traceback.
    """


class LostProcess(RuntimeError):
    """A process or node that a run needs has died: the message says which.

    The `rspo` command prints it as one line and exits with 1; the same command goes on from the
    last checkpoint.
    """


def did_you_mean(name: str, allowed: Iterable[str], at_most: int = 1, cutoff: float = 0.6) -> str:
    """A question with the nearest allowed names, or "" if none is near.

    Args:
        at_most: how many names may stand in it.
        cutoff: from 0 (anything is near) to 1 (difflib's ratio).
    """
    close = difflib.get_close_matches(name, list(allowed), n=at_most, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else ""
