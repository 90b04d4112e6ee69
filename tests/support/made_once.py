"""Folders that all processes of a test run use and one of them makes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that tests must only read. The first process that needs it makes it.

    Args:
        make: fills the new folder. If it fails, the next process tries again.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with (base / f"{name}.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if folder := lock.read():
            return Path(folder)
        made = factory.mktemp(name)
        make(made)
        lock.write(str(made))
    return made
