"""Runs a program in a pseudo terminal."""

import os
import pty
import select
import sys
import time
from pathlib import Path

SECONDS = 240


def run_in_terminal(
    words: list[str], folder: Path, interrupt_at: Path | None = None
) -> tuple[int, str]:
    """Run a program in a terminal of its own until it ends.

    Args:
        folder: where it runs.
        interrupt_at: press Ctrl-C as soon as this file exists.

    Returns: exit status, and everything that the terminal received.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ |= {"TERM": "xterm", "COLUMNS": "150", "LINES": "40"}
        os.execv(words[0], words)
    output, deadline = b"", time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if interrupt_at is not None and interrupt_at.exists():
            os.write(terminal, b"\x03")
            interrupt_at = None
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                output += os.read(terminal, 65536)
            except OSError:  # Linux: every process has closed the terminal
                _, status = os.waitpid(process, 0)
                return os.waitstatus_to_exitcode(status), output.decode()
    os.kill(process, 9)
    print(output.decode(), file=sys.stderr)
    raise TimeoutError(f"{words[0]} did not end within {SECONDS} s")
