"""Ranks of verl on this machine's CPUs, one process each."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tests.support import ROOT


@contextmanager
def cpu_ranks(
    count: int, module: str, *arguments: str, stdout: IO[str] | int
) -> Iterator[list["subprocess.Popen[Any]"]]:
    """Start `python -m MODULE ARGUMENTS` once per rank; kill the processes at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count),
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=environment | {"RANK": str(rank)},
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
