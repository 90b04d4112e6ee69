"""Refuses and notes each use of a file that a finished run left in the checkout.

Tests make the files that they use. With those of `make demo` a test would pass or fail by chance,
and could change them. Python imports a module of this name at its start: tests/conftest.py puts
this folder on PYTHONPATH, so that the processes of a test are checked too.
"""

import os
import sys

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
FOLDERS = [os.path.join(CHECKOUT, name) for name in ("results", "reports", "trial")]
TRACKED = os.path.join(CHECKOUT, "reports", "README.md")
# Environment variable with the file that gets a line for each use. Without it, nothing is refused.
NOTES = "RSPO_TEST_NOTES"

# Events of Python's audit hooks, with the places of their path and of its `dir_fd` (None: none).
PATHS = {
    "open": [(0, None)],
    "os.listdir": [(0, None)],
    "os.scandir": [(0, None)],
    "os.truncate": [(0, None)],
    "os.mkdir": [(0, 2)],
    "os.remove": [(0, 1)],
    "os.rmdir": [(0, 1)],
    "shutil.rmtree": [(0, None)],  # before it opens the folder and removes files relative to it
    "os.utime": [(0, 3)],
    "os.rename": [(0, 2), (1, 3)],
    "os.link": [(0, 2), (1, 3)],
    "os.symlink": [(1, 2)],
}
NO_FOLDER = -1  # value of `dir_fd` for a path that is relative to the current folder
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def is_of_a_run(path: str) -> bool:
    """Whether an absolute path is in a folder of a run, or such a folder."""
    return path != TRACKED and any(f"{path}/".startswith(f"{folder}/") for folder in FOLDERS)


def _check(event: str, arguments: tuple[object, ...]) -> None:
    if event not in PATHS or NOTES not in os.environ:
        return
    if event == "os.listdir" and sys._getframe(1).f_globals.get("__name__") == "pkgutil":
        return  # Snakemake looks for packages in each folder of the checkout
    for place, place_of_folder in PATHS[event]:
        folder = NO_FOLDER if place_of_folder is None else arguments[place_of_folder]
        path = _absolute(arguments[place], folder)
        if event == "open" and _may_be_below_another_folder(arguments):
            continue
        if path and is_of_a_run(path):
            with open(os.environ[NOTES], "a") as notes:
                notes.write(f"{event} {path}\n")
            raise PermissionError(f"{path}: a test must not use what a run left in the checkout")


def _absolute(path: object, folder: object) -> str:
    """A path of an event; empty for an open file, or one that is relative to an open folder."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    name = os.fsdecode(path)
    if not os.path.isabs(name) and folder != NO_FOLDER:
        return ""
    try:
        return os.path.abspath(name)
    except FileNotFoundError:  # the current folder was deleted
        return ""


def _may_be_below_another_folder(arguments: tuple[object, ...]) -> bool:
    """Whether it may be `os.open(name, dir_fd=...)` for reading, as `shutil.rmtree` calls it.

    The event does not have `dir_fd`. Python's `open` has a mode, `os.open` has none.
    """
    path, mode, flags = arguments
    reads = isinstance(flags, int) and not flags & WRITES
    is_relative = isinstance(path, (str, bytes)) and not os.path.isabs(path)
    return mode is None and reads and is_relative


sys.addaudithook(_check)
