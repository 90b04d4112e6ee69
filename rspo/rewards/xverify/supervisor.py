"""Run a command until it ends or standard input closes, and leave none of its processes behind.

    python -m rspo.rewards.xverify.supervisor COMMAND...

Standard input closes with whoever started the supervisor, however that ends, SIGKILL included.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

_SECONDS_TO_END = 10


def main(command: list[str]) -> int:
    """Returns: the exit status of the command."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_input, args=[server], daemon=True).start()
    status = server.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    return status


def _end_with_input(server: "subprocess.Popen[bytes]") -> None:
    sys.stdin.buffer.read()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
