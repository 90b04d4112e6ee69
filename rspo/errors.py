"""The one exception for everything that a user can mend."""


class InputError(ValueError):
    """Bad config, data or command line: the message names what was found and what is allowed.

    The `rspo` command prints it as one line and exits with 2; anything else is a bug and keeps
    its traceback.
    """
