"""Exceptions that the `rspo` command prints as one line, and suggestions for mistyped names."""

import difflib
from collections.abc import Collection, Iterable


class InputError(ValueError):
    """Bad config, data or command line; the message names the value and what is allowed.

    The `rspo` command prints it as one line and exits with status 2. Other exceptions are bugs and
    keep their traceback.
    """


class LostProcess(RuntimeError):
    """A process or node that a run needs died; the message names it.

    The `rspo` command prints it as one line and exits with status 1. The same command resumes from
    the last checkpoint.
    """


def did_you_mean(name: str, allowed: Iterable[str], at_most: int = 1, cutoff: float = 0.6) -> str:
    """ "did you mean ...?" with the most similar allowed names, or "" if none is similar.

    Args:
        at_most: the largest number of names to suggest.
        cutoff: the smallest similarity, from 0 to 1 (difflib's ratio).
    """
    close = difflib.get_close_matches(name, dict.fromkeys(allowed), n=at_most, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else ""


def allowed_names(name: str, allowed: Collection[str], cutoff: float = 0.6) -> str:
    """The end of a message about a name that is not allowed: a suggestion, and all that are."""
    meant = did_you_mean(name, allowed, cutoff=cutoff)
    hint = f"{meant} Allowed" if meant else "allowed"
    return f"{hint}: {', '.join(allowed) or 'none'}"
