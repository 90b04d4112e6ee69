"""Finding processes, and waiting for them."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil


def processes_with(text: str, parent: int | None = None) -> list[int]:
    """Ids of other processes whose command line contains a text, or of one process's children."""
    processes = psutil.process_iter() if parent is None else psutil.Process(parent).children()
    result = []
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            if text in " ".join(process.cmdline()) and process.pid != os.getpid():
                result.append(process.pid)
    return result


def wait_for_lock(folder: Path, process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait until a process holds the lock of a folder; its imports take seconds."""
    lock = folder / ".lock"
    deadline = time.monotonic() + seconds
    while not (lock.exists() and f"process {process.pid} " in lock.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)
