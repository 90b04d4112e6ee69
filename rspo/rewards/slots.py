"""The environment variable RSPO_WORKERS: how many rows all processes of a node verify at once.

A trainer with eight processes would otherwise start eight times as many workers as there are CPUs.
There is a file for each slot, and a row locks one of them while its worker runs. The kernel frees
the lock of a process that ends.
"""

import fcntl
import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rspo.core.errors import InputError

VARIABLE = "RSPO_WORKERS"
_NUMBER = re.compile(r"0*[1-9][0-9]{0,5}")
_LONGEST_PAUSE = 0.05  # seconds between two attempts to lock a slot
_SECONDS_TO_WARNING = 60.0  # a row rarely takes longer, but a suspended process holds its slot

_lock = threading.Lock()
_own: set[int] = set()  # slots that this process has locked
_warned = threading.Event()  # whether this process has said that it waits

_log = logging.getLogger(__name__)


def limit() -> int | None:
    """The value of RSPO_WORKERS; None if it is not set.

    Raises: InputError if it is not a positive integer.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{VARIABLE} = {text!r:.40}; allowed: an integer from 1 to 999999")
    return int(text)


@contextmanager
def slot(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Hold a slot during the block, after waiting until one is free.

    Args:
        is_stopped: whether to stop waiting. The block then runs without a slot.

    Raises: InputError if the folder of the slots cannot be used.
    """
    count = limit()
    if count is None:
        yield
        return
    held = _wait_for_slot(count, is_stopped)
    try:
        yield
    finally:
        if held is not None:
            _release(*held)


def _wait_for_slot(count: int, is_stopped: Callable[[], bool]) -> tuple[int, int] | None:
    """Lock a slot once one is free; see `_free_slot`. None if `is_stopped` says so before."""
    pause = 0.001
    start = time.monotonic()
    held = _free_slot(count)
    while held is None and not is_stopped():
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        if time.monotonic() - start > _SECONDS_TO_WARNING:
            _warn(count)
        held = _free_slot(count)
    return held


def _warn(count: int) -> None:
    """Say once in this process that a row waits."""
    with _lock:
        if _warned.is_set():
            return
        _warned.set()
    _log.warning(
        "a response has waited %.0f s for one of the %d slots of %s; other processes, perhaps "
        "suspended ones, have locked the files in %s",
        _SECONDS_TO_WARNING,
        count,
        VARIABLE,
        _folder(),
    )


def _folder() -> Path:
    """The folder of the slots of this user, which all processes of the node share."""
    return Path(tempfile.gettempdir()) / f"rspo-workers-{os.getuid()}"


def _free_slot(count: int) -> tuple[int, int] | None:
    """Lock a free slot. Returns: its number and its open file; None if none is free.

    The locks are those of POSIX: unlike those of flock, a forked process does not share them. A
    process does not wait for its own locks, so `_own` excludes its other threads.

    Raises: InputError if the folder of the slots cannot be used.
    """
    folder = _folder()
    try:
        # Programs that clean temporary files may have removed the folder since the last attempt.
        folder.mkdir(mode=0o700, exist_ok=True)
        for number in range(count):
            with _lock:
                file = None if number in _own else _locked_file(folder, number)
                if file is not None:
                    _own.add(number)
                    return number, file
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{VARIABLE} needs the folder {folder}: {reason}") from error
    return None


def _locked_file(folder: Path, number: int) -> int | None:
    """Open and lock the file of a slot; None if another process has it."""
    try:
        file = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the folder was removed just now
        return None
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError | PermissionError):  # another process has the lock
            return None
        raise
    return file


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
    _warned.clear()
