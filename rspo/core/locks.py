"""Exclusive locks on folders and files (`flock`).

A lock ends with the process that holds it, even if SIGKILL ends that process.

Locks hold across hosts if the file system supports it, such as NFS 4 and Lustre mounted with
`-o flock`. `rspo doctor` tests this.
"""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rspo.core.errors import InputError
from rspo.core.signals import SNAKEMAKE
from rspo.core.slurm_job import host_name, name_of_this_job

LOCK = ".lock"  # the lock file of a folder; it contains the name of the last owner
# When SLURM gives up a node, it restarts the job on another one. The file server keeps the locks of
# the lost host until their lease ends: 90 seconds on NFS, up to some minutes on Lustre.
SECONDS_FOR_A_LOST_NODE = 300
_SECONDS_BETWEEN_TRIES = 2
# `is_locked` locks the file for a moment. So a process that cannot lock it tries again for this
# long, before it concludes that another process works in the folder.
SECONDS_FOR_A_CHECK = 1


@contextmanager
def exclusive_lock(folder: Path, name: str = LOCK, waits: bool = True) -> Iterator[None]:
    """Hold the lock of a folder while the block runs. The folder is created if needed.

    Args:
        name: the name of the lock file.
        waits: whether to wait up to `SECONDS_FOR_A_LOST_NODE` if another process holds the lock.
            Only SLURM jobs and commands that Snakemake started wait; a user gets the error at once.

    Raises: InputError if another process holds the lock, or the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _opened(folder, name) as lock:
        acquired = _acquire(lock, SECONDS_FOR_A_CHECK, 0.05)
        if not acquired and waits and (name_of_this_job() or os.environ.get(SNAKEMAKE)):
            seconds = SECONDS_FOR_A_LOST_NODE
            busy = f"{folder}: {_owner(lock)} is running here"
            print(f"rspo: {busy}; waiting up to {seconds:g} s", file=sys.stderr, flush=True)
            acquired = _acquire(lock, seconds, _SECONDS_BETWEEN_TRIES)
        if not acquired:
            raise InputError(f"{folder}: {_owner(lock)} is running here; wait for it or end it")
        _name_owner(lock)
        yield


def _opened(folder: Path, name: str) -> IO[str]:
    """A lock file, which is made if needed.

    Raises: OSError that names the folder, if no file can be made in it: users know no lock files.
    """
    file = folder / name
    try:
        # Mode "a+" keeps the name of the present owner, which `_owner` reads for the message.
        return file.open("a+")
    except OSError as error:
        if not file.exists():
            error.filename = str(folder)
        raise


def _name_owner(lock: IO[str]) -> None:
    """Write this process into a lock file, for the messages of others.

    Raises: OSError that names the file, such as for a full disk. The file is then empty.
    """
    try:
        os.ftruncate(lock.fileno(), 0)
        # Without a buffer, which would be written again when the file is closed, and fail again.
        os.write(lock.fileno(), this_process().encode())
    except OSError as error:
        error.filename = lock.name
        raise


def _owner(lock: IO[str]) -> str:
    """The process that holds a lock, as it wrote into the lock file."""
    lock.seek(0)
    return lock.read()


def is_locked(lock: Path) -> bool:
    """Whether a process holds a lock file. True also if the file system cannot tell."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # a process holds it, or the file system does not tell
        return True
    return False


def _acquire(file: IO[str], seconds: float, between_tries: float) -> bool:
    """Try for some seconds to lock a file. Returns whether that succeeded.

    Args:
        between_tries: seconds between two tries.

    Raises: InputError if the file system has no locks.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            # Without LOCK_NB, `flock` would wait without a limit.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
        except OSError as error:
            raise InputError(
                f"{file.name}: this file system does not support locks ({error.strerror}); mount "
                "it with flock (Lustre: -o flock; NFS: version 4) or use another one"
            ) from None
        time.sleep(min(left, between_tries))


def this_process() -> str:
    """The job, process ID and host of this process, for the messages of other processes."""
    process = f"process {os.getpid()} on {host_name()}"
    job = name_of_this_job()
    return f"{job}, {process}" if job else process
