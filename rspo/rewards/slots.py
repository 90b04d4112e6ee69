"""The environment variable RSPO_WORKERS: how many rows all processes of a node verify at once.

A trainer with eight processes would otherwise start eight times as many workers as there are CPUs.
There is a file for each slot, and a row locks one of them while its worker runs. The kernel frees
the lock of a process that ends.
"""

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rspo.core.errors import InputError

VARIABLE = "RSPO_WORKERS"
_LONGEST_PAUSE = 0.05  # seconds between two attempts to lock a slot

_lock = threading.Lock()
_own: set[int] = set()  # slots that this process has locked


def limit() -> int | None:
    """The value of RSPO_WORKERS; None if it is not set.

    Raises: InputError if it is not a positive integer.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"{VARIABLE} = {text!r}; allowed: a positive integer")
    return int(text)


@contextmanager
def slot(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Hold a slot during the block, after waiting until one is free.

    Args:
        is_stopped: whether to stop waiting. The block then runs without a slot.
    """
    count = limit()
    if count is None:
        yield
        return
    folder = _folder()
    pause = 0.001
    held = _free_slot(folder, count)
    while held is None and not is_stopped():
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        held = _free_slot(folder, count)
    try:
        yield
    finally:
        if held is not None:
            _release(*held)


def _folder() -> Path:
    """The folder of the slots of this user, which all processes of the node share."""
    folder = Path(tempfile.gettempdir()) / f"rspo-workers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _free_slot(folder: Path, count: int) -> tuple[int, int] | None:
    """Lock a free slot. Returns: its number and its open file; None if none is free.

    The locks are those of POSIX: unlike those of flock, a forked process does not share them. A
    process does not wait for its own locks, so `_own` excludes its other threads.
    """
    for number in range(count):
        with _lock:
            if number in _own:
                continue
            file = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another process has it
                os.close(file)
                continue
            _own.add(number)
            return number, file
    return None


def _release(number: int, file: int) -> None:
    """Free a slot."""
    with _lock:
        os.close(file)  # this also frees the lock
        _own.discard(number)


def forget() -> None:
    """Forget the slots of the parent, in a child process after a fork."""
    global _lock
    _lock = threading.Lock()
    _own.clear()
