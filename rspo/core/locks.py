"""Locks on folders: one process at a time works in a folder."""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rspo.core.errors import InputError
from rspo.core.slurm_job import host_name, name_of_this_job

LOCK = ".lock"  # in a folder that one process at a time may work in
# SLURM gives up a node that does not answer, and its job starts elsewhere: the node's processes may
# live on, and a file server keeps the locks of a host that is gone until their lease ends, which is
# 90 seconds on NFS and up to some minutes on Lustre.
SECONDS_FOR_A_LOST_NODE = 300
_SECONDS_BETWEEN_TRIES = 2
SECONDS_FOR_A_LOOK = 1  # `is_locked` has a lock for a moment; many may look


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Keep every other process that asks the same out of a folder.

    The lock is the kernel's: it ends with the process, however that ends. Other hosts are kept out
    where the file system passes `flock` on, as NFS from version 4 and Lustre with `-o flock` do;
    `rspo doctor` tries it.

    Raises: InputError that names the process that has the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as lock:

        def busy() -> str:
            lock.seek(0)
            return f"{folder}: {lock.read()} is at work here"

        take_lock(lock, busy)
        lock.truncate(0)
        lock.write(this_process())
        lock.flush()
        yield


def no_locks(file: str, error: OSError) -> InputError:
    """What to mend where a file system has none, such as Lustre without -o flock."""
    return InputError(
        f"{file}: this file system gives no locks ({error.strerror}); mount it with flock (Lustre: "
        "-o flock; NFS: version 4), or run this on another one"
    )


def is_locked(folder: Path) -> bool:
    """Whether some process has a folder for itself: on any host, as far as `alone` reaches."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or no locks: nobody can have it
        pass
    return False


def take_lock(file: IO[str], busy: Callable[[], str]) -> None:
    """Have an open file for this process alone, until it is closed.

    A SLURM job tries again for `SECONDS_FOR_A_LOST_NODE`.

    Args:
        busy: says who has it, asked when somebody has.

    Raises: InputError with what `busy` says, or if the file system has no locks.
    """
    if _gets_lock(file, SECONDS_FOR_A_LOOK, between_tries=0.05):
        return
    if name_of_this_job():
        seconds = SECONDS_FOR_A_LOST_NODE
        wait = f"waiting up to {seconds:g} s for it to end"
        print(f"rspo: {busy()}; {wait}", file=sys.stderr, flush=True)
        if _gets_lock(file, seconds, _SECONDS_BETWEEN_TRIES):
            return
    raise InputError(f"{busy()}; wait or end it")


def _gets_lock(file: IO[str], seconds: float, between_tries: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if (left := deadline - time.monotonic()) <= 0:
                return False
        except OSError as error:
            raise no_locks(file.name, error) from None
        time.sleep(min(left, between_tries))


def this_process() -> str:
    """Its job, number and host, for whoever finds it at work."""
    job = f"{name_of_this_job()}, " if name_of_this_job() else ""
    return f"{job}process {os.getpid()} on {host_name()}"
