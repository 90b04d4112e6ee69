"""Peak memory of the processes of a step."""

import contextlib
import threading

import psutil

from rspo.core.gpus import gpu_bytes
from rspo.core.supervisor import processes_with
from rspo.gpu_check.table import Memory

SECONDS_BETWEEN_LOOKS = 1.0


class PeakMemory(threading.Thread):
    """Measures once per second while its block runs.

    Memory that several processes share counts once. The memory of a GPU is that of all processes
    on it, also those of others: nvidia-smi in a container does not tell them apart.
    """

    def __init__(self, key: str, gpus: bool) -> None:
        """
        Args:
            key: an environment variable of the processes.
            gpus: whether to measure GPUs.
        """
        super().__init__(daemon=True)
        self.key, self.gpus, self.peak = key, gpus, Memory()
        self._stopped = threading.Event()

    def __enter__(self) -> "PeakMemory":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(SECONDS_BETWEEN_LOOKS):
            gpu = gpu_bytes("used") if self.gpus else 0
            peak = self.peak
            self.peak = Memory(max(peak.host, host_bytes(self.key)), max(peak.gpu, gpu))


def host_bytes(key: str) -> int:
    """Memory of the processes with an environment variable."""
    total = 0
    for process in processes_with(key):
        with contextlib.suppress(psutil.Error, OSError):
            total += process.memory_full_info().pss
    return total
