"""Run a command that ends with whoever started it, and leave no process and no folder of it.

    python -m rspo.core.supervisor KEY FOLDER COMMAND...

The command ends when standard input closes, which it does with whoever started the supervisor,
however that ends, SIGKILL included. Ended are all processes that inherited the environment
variable KEY from the command, wherever in the tree of processes they hang by then. FOLDER is
removed when they are gone. SIGUSR1 is handed on to the command.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from rspo.core.signals import REQUEST, accept_requests, is_requested

_SECONDS_TO_END = 10
_SECONDS_TO_DIE = 60  # of a SIGKILL: a process that waits for a disk or a GPU takes no signal
_SECONDS_BETWEEN_LOOKS = 0.2
# A process's title is written over its arguments and, where they are too short for it, over its
# environment, which is then as good as erased. Ray's and vLLM's processes have titles; this keeps
# both from taking more than the arguments' room.
_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}


@contextlib.contextmanager
def supervised(
    command: Sequence[str], key: str, folder: Path, output: IO[str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command while the block runs; its status is the process's that the block gets.

    Args:
        key: an environment variable that nothing but this command has.
        folder: of the command alone; removed with it.
        output: where it prints, standard output and error; none: where this process prints.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "rspo.core.supervisor", key, str(folder), *command],
        stdin=subprocess.PIPE,  # closes with this process
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for this process, which then ends the command
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        remove_what_is_left(key, folder)  # nothing, unless somebody killed the supervisor


def main(key: str, folder: Path, command: list[str]) -> int:
    """Returns: the exit status of the command, as a shell would give it."""
    accept_requests()
    environment = os.environ | _KEEP_ENVIRONMENT | {key: "1"}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    gives_up = threading.Event()
    threading.Thread(target=_end_with_input, args=[child, gives_up], daemon=True).start()
    handed_on = False
    while child.poll() is None and not gives_up.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_BETWEEN_LOOKS)
        if is_requested() and not handed_on:
            handed_on = True
            child.send_signal(REQUEST)
    remove_what_is_left(key, folder)
    status = child.returncode if child.returncode is not None else -signal.SIGKILL
    return status if status >= 0 else 128 - status


def _end_with_input(child: "subprocess.Popen[bytes]", gives_up: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):  # unbuffered: Python waits for a buffer's lock at its end
        pass
    child.terminate()
    try:
        child.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_TO_DIE)
        gives_up.set()


def remove_what_is_left(key: str, folder: Path) -> None:
    """End all processes that have the environment variable `key`, then remove the folder.

    Those that do not die of a SIGKILL within a minute are named and left to their kernel.
    """
    deadline, told = time.monotonic() + _SECONDS_TO_END, set()
    while found := _processes_with(key):
        if time.monotonic() > deadline + _SECONDS_TO_DIE:
            numbers = ", ".join(str(process.pid) for process in found)
            print(f"rspo: process {numbers} cannot be killed and is left", file=sys.stderr)
            break
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                if time.monotonic() > deadline:
                    process.kill()
                elif process not in told:
                    told.add(process)
                    process.terminate()
        psutil.wait_procs(found, _SECONDS_BETWEEN_LOOKS)
    shutil.rmtree(folder, ignore_errors=True)


def _processes_with(key: str) -> list[psutil.Process]:
    """Of this user's processes, those with an environment variable."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if key in process.environ():
                found.append(process)
    return found


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # not ignored: children would inherit that
        signal.signal(number, lambda *_: None)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
