"""The highest value that a function has while something runs, such as memory in use."""

import threading
from collections.abc import Callable


class Peak(threading.Thread):
    """Calls the function every few seconds until the `with` block or the process ends."""

    def __init__(self, value: Callable[[], float], seconds: float = 1.0) -> None:
        super().__init__(daemon=True)
        self.value = value
        self.highest = 0.0
        self._seconds = seconds
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.start()

    def __enter__(self) -> "Peak":
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(self._seconds):
            value = self.value()
            with self._lock:
                self.highest = max(self.highest, value)

    def take(self) -> float:
        """The highest value since the last call, including the current value."""
        value = self.value()  # less than an interval may have passed
        with self._lock:
            highest = max(self.highest, value)
            self.highest = 0.0
        return highest
