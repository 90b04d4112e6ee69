"""Finding processes, waiting for them, and ending those that a test has left."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

LONGEST_WAIT = 300  # seconds; generous, so that a busy machine fails no test
_KEY = ""


def _mark_descendants() -> None:
    """Set a variable that descendants inherit, also those whose parent has ended."""
    global _KEY
    _KEY = f"RSPO_TEST_{os.getpid()}"
    os.environ[_KEY] = "1"


_mark_descendants()
os.register_at_fork(after_in_child=_mark_descendants)  # for mutmut, whose forks run tests
_SHARED = ("rspo.rewards.sandbox_worker", "tests.support.snakemake_server")  # with later tests
_of_others: set[int] = set(psutil.pids())  # IDs, so that `descendants` examines only new processes


def descendants() -> list[psutil.Process]:
    """Running processes that this one or its descendants started, except those in `_SHARED`."""
    running = set(psutil.pids())
    _of_others.intersection_update(running)
    result = []
    for pid in running - _of_others:
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE or _is_shared(process):
                continue
            if _KEY in process.environ() or os.getpid() in [p.pid for p in process.parents()]:
                result.append(process)
            else:
                _of_others.add(pid)
        except psutil.NoSuchProcess:
            pass
        except psutil.AccessDenied:  # of another user
            _of_others.add(pid)
    return result


def _is_shared(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return process.ppid() == os.getpid() and any(name in command for name in _SHARED)


@contextlib.contextmanager
def none_left(seconds: float = 60) -> Iterator[None]:
    """Kill the processes that were started in this block and still run some seconds after it.

    Raises: AssertionError that lists them.
    """
    before = set(descendants())
    yield
    psutil.wait_procs(set(descendants()) - before, seconds)  # some are about to end
    names = []
    while left := set(descendants()) - before:  # a process may start another before it is killed
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                names.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
                process.kill()
        psutil.wait_procs(left, seconds)
    assert not names, "processes were left running:\n" + "\n".join(names)


def processes_with(text: str, parent: int | None = None) -> list[int]:
    """Ids of other processes whose command line contains a text, or of one process's children."""
    processes = psutil.process_iter() if parent is None else psutil.Process(parent).children()
    result = []
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            if text in " ".join(process.cmdline()) and process.pid != os.getpid():
                result.append(process.pid)
    return result


def wait_for_lock(folder: Path, process: "subprocess.Popen[Any]") -> None:
    """Wait until a process holds the lock of a folder; its imports take seconds."""
    lock = folder / ".lock"

    def is_locked() -> bool:
        assert process.poll() is None
        return lock.exists() and f"process {process.pid} " in lock.read_text()

    wait_until(is_locked, pause=0.01)


def wait_until(holds: Callable[[], bool], pause: float = 0.05) -> None:
    """Wait for a condition that holds within seconds; on a busy machine, within minutes."""
    end = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < end, "timed out"
        time.sleep(pause)
