"""Records the highest value of a function while other code runs, such as the memory in use."""

import threading
from collections.abc import Callable


class Peak(threading.Thread):
    """A thread that calls a function at intervals and keeps its highest value.

    The thread starts at once, and ends with its `with` block or with the process.

    value: the function, such as one that returns the bytes in use. Its values are not negative.
    highest: the highest value since the last call of `take`.
    """

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
        """Return the highest value since the last call, or the current value if that is higher.

        The next call returns the highest value since this one.
        """
        # The thread may not have called the function since the last call of `take`.
        value = self.value()
        with self._lock:
            highest = max(self.highest, value)
            self.highest = 0.0
        return highest
