"""Checks for `rspo gpu-check` that pass, fail, crash, hang, or need memory."""

import ctypes
import os
import subprocess
import time
from pathlib import Path

from rspo.gpu_check.settings import CheckFailed, NotHere, Settings

MEGABYTES = 300  # of `needs_memory`
CHILD = "child"  # file with the process ID of the child of `hangs`


def passes(settings: Settings) -> str:
    return "12 of 12"


def fails(settings: Settings) -> str:
    raise CheckFailed("3 of 12 | are\nwrong")


def raises(settings: Settings) -> str:
    return str(1 / 0)


def is_not_here(settings: Settings) -> str:
    raise NotHere("not on a CPU")


def crashes(settings: Settings) -> str:
    print("about to read address 0", flush=True)
    ctypes.string_at(0)
    return "not reached"


def exits(settings: Settings) -> str:
    print("rspo: error: no memory", flush=True)
    print("further output", flush=True)
    os._exit(3)


def exits_with_255(settings: Settings) -> str:
    """128 more than no signal."""
    os._exit(-1)


def hangs(settings: Settings) -> str:
    """With a child in a session of its own, as Ray's processes are."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(settings.folder, CHILD).write_text(str(child.pid))
    time.sleep(600)
    return "not reached"


def needs_memory(settings: Settings) -> str:
    block = bytearray(MEGABYTES * 10**6)
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(block[:: os.sysconf("SC_PAGE_SIZE")])
    time.sleep(3)
    return ""


def copies_table(settings: Settings) -> str:
    """Reads the table, whose path is `mirror`, while this step runs."""
    table = Path(settings.mirror)
    Path(settings.folder, "table-while-running").write_text(table.read_text())
    return ""
