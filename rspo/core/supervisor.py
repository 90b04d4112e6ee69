"""Run a command that ends when its parent ends, and clean up its processes and its folder.

    python -m rspo.core.supervisor KEY FOLDER COMMAND...

The supervisor is a process between the parent, which calls `supervised`, and the command. Its
standard input is a pipe from the parent, which closes when the parent ends, even by SIGKILL. Then,
and when the command ends, the supervisor ends all processes that have the environment variable KEY,
even those that have left the command's process tree, and removes FOLDER. It forwards SIGUSR1 to the
command.
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

_SECONDS_TO_END = 10  # between SIGTERM and SIGKILL
_SECONDS_TO_DIE = 60  # after SIGKILL; a process that waits for a disk or a GPU takes no signals
_SECONDS_BETWEEN_LOOKS = 0.2
# Ray and vLLM set process titles with the package setproctitle. A long title overwrites the memory
# of a process's arguments and then of its environment, in which KEY is looked up. This variable
# makes setproctitle cut a title to the space of the arguments.
_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}


@contextlib.contextmanager
def supervised(
    command: Sequence[str], key: str, folder: Path, output: IO[str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command while the block runs, and end it with the block.

    Args:
        key: the name of an environment variable that no other command has.
        folder: the folder to remove when the command has ended.
        output: the file to which the command prints; None: where this process prints.

    Yields: the process of the supervisor, which exits with the status of the command.
    """
    supervisor = [sys.executable, "-m", "rspo.core.supervisor", key, str(folder)]
    process = subprocess.Popen(
        supervisor + list(command),
        stdin=subprocess.PIPE,  # closes when this process ends
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C goes to this process, which then ends the command
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        clean_up(key, folder)  # in case the supervisor was killed


def main(key: str, folder: Path, command: list[str]) -> int:
    """Run the command in the process of the supervisor.

    Returns: the command's exit status as a shell reports it (128 + N for signal N).
    """
    accept_requests()
    environment = os.environ | _KEEP_ENVIRONMENT | {key: "1"}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    ended = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=[ended], daemon=True).start()
    forwarded = False
    while child.poll() is None and not ended.wait(_SECONDS_BETWEEN_LOOKS):
        if is_requested() and not forwarded:
            forwarded = True
            child.send_signal(REQUEST)
    clean_up(key, folder)  # which ends the command too, if it still runs
    status = child.poll()  # -N after signal N; None if the command could not be killed
    status = -signal.SIGKILL if status is None else status
    return status if status >= 0 else 128 - status


def _wait_for_end_of_input(ended: threading.Event) -> None:
    """Set the event when standard input closes."""
    # Not `sys.stdin.read`: this thread would hold the lock of its buffer, for which Python waits at
    # its exit.
    while os.read(sys.stdin.fileno(), 1):
        pass
    ended.set()


def clean_up(key: str, folder: Path) -> None:
    """End all processes that have the environment variable `key`, then remove the folder.

    Processes that do not die within a minute after SIGKILL are reported and left running.
    """
    # Send SIGTERM once to every process, also to those that start meanwhile. After the deadline,
    # send SIGKILL.
    deadline = time.monotonic() + _SECONDS_TO_END
    terminated = set()
    while processes := processes_with(key):
        if time.monotonic() > deadline + _SECONDS_TO_DIE:
            numbers = ", ".join(str(process.pid) for process in processes)
            print(f"rspo: could not kill process {numbers}", file=sys.stderr)
            break
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                if time.monotonic() > deadline:
                    process.kill()
                elif process not in terminated:
                    terminated.add(process)
                    process.terminate()
        psutil.wait_procs(processes, _SECONDS_BETWEEN_LOOKS)
    shutil.rmtree(folder, ignore_errors=True)


def processes_with(key: str) -> list[psutil.Process]:
    """The processes that have an environment variable, as far as this user may see it.

    If there seem to be none, this looks a second time: a process that is starting a program shows
    no environment for a moment.
    """
    processes = _look_for(key)
    if not processes:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        processes = _look_for(key)
    return processes


def _look_for(key: str) -> list[psutil.Process]:
    """The processes that have an environment variable now."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if key in process.environ():
                processes.append(process)
    return processes


if __name__ == "__main__":
    # The supervisor must outlive what it cleans up. It has an empty handler in place of SIG_IGN,
    # which the command would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
