"""The processor time of some work, without that of collecting the garbage of earlier tests."""

import gc
import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """The processor seconds that all threads of this process use while it does some work."""
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()
