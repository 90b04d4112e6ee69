"""The exceptions that a user sees as one line."""


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
