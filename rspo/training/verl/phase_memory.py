"""Peak memory of each phase of a step, of all processes on this node."""

import threading
import time

import psutil

from rspo.core.gpus import gpu_bytes

_SECONDS_BETWEEN_LOOKS = 1.0


class PhaseMemory(threading.Thread):
    """Measures from its start on: the memory in use of the fullest GPU, or of a host without GPUs.

    PyTorch's own peak lacks the servers of policy and judge, which share the GPUs.
    """

    def __init__(self, gpus: bool) -> None:
        super().__init__(daemon=True)
        self.gpus, self.peak = gpus, 0.0
        self.peaks: dict[str, float] = {}  # GB, by phase; of each, the last one
        self.start()

    def run(self) -> None:
        while True:
            self._look()
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _look(self) -> None:
        used = gpu_bytes("used") if self.gpus else psutil.virtual_memory().used
        self.peak = max(self.peak, used / 1e9)

    def lap(self, phase: str) -> None:
        """Note the peak since the end of the previous phase as this phase's."""
        self._look()
        self.peaks[phase], self.peak = round(self.peak, 2), 0.0
