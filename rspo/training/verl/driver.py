"""verl's driver: the process that trains.

    python -m rspo.training.verl.driver CONFIG FOLDER

`run.py` starts the driver under a supervisor, with the cell's `verl.yaml` and a folder for Ray. The
driver is not the process of `rspo train`, which therefore survives a failure of the driver and
reports it. Unless the driver is killed, it writes its outcome to a file beside the checkpoint.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError, LostProcess
from rspo.core.files import write_text
from rspo.core.signals import Stopped, accept_requests
from rspo.training.verl import ray_cluster as cluster
from rspo.training.verl.checkpoints import OUTCOME_FILE, keep_the_last

TRAINED = "trained"
POLL_SECONDS = 1.0
DETECTION_SECONDS = 30.0  # within this time, Ray detects that it has lost a process
MAX_FAILED_CHECKS = 3  # in a row; without Ray's head, each may take a minute


def main(config_file: Path, folder: Path) -> None:
    """Train until the last checkpoint, a stop request, or the first failure."""
    from omegaconf import OmegaConf

    accept_requests()
    config = OmegaConf.load(config_file)
    OmegaConf.set_struct(config, True)
    outcome = _Outcome(Path(config.trainer.default_local_dir) / OUTCOME_FILE)
    try:
        # The first watchdog does not call Ray, so it also covers Ray's start. The second watchdog
        # calls Ray.
        with _Watchdog(cluster.lost_process, outcome):
            cluster.start(config, folder)
            with _Watchdog(cluster.lost_actor, outcome):
                _run(config)
        outcome.record(TRAINED, "")
    except Exception as error:
        reason = _reason(error)
        outcome.record(type(reason).__name__, str(reason))


def train(config: Any) -> None:
    """Train with verl.

    This imports verl, so the environment variables that verl reads must be set before the call.
    """
    from rspo.training.verl import trainer

    trainer.train(config)


def _run(config: Any) -> None:
    """Train; after an unexpected error, give the watchdog time to find a lost process.

    When a process is lost, the processes that use it fail at once, with errors of any type. Ray
    detects the loss only later; the watchdog then reports it and ends this process.
    """
    try:
        train(config)
    except (InputError, LostProcess, Stopped):
        raise
    except Exception as error:
        if not isinstance(getattr(error, "cause", None), InputError):
            time.sleep(DETECTION_SECONDS)
        raise


def _reason(error: BaseException) -> Exception:
    """The error that ended the training, as it was raised in the process where it occurred.

    An error of an unexpected type becomes a LostProcess.
    """
    import ray

    # Ray wraps the error of a task or an actor in an error of its own, perhaps several times.
    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    if isinstance(error, InputError | LostProcess | Stopped):
        return error
    traceback.print_exc()
    message = type(error).__name__
    lines = str(error).strip().splitlines()
    if lines:
        message += f": {lines[-1]}"
    return LostProcess(f"verl's driver has failed, see above: {message}")


class _Outcome:
    """Writes how the training ended. Only the first call of `record` counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lock = threading.Lock()  # the main thread and the watchdogs record
        self.recorded = False

    def record(self, kind: str, message: str) -> None:
        """Write the outcome, unless an earlier call has done so.

        Args:
            kind: TRAINED, or the name of the type of the error.
            message: the message of the error.
        """
        with self.lock:
            if self.recorded:
                return
            self.recorded = True
            try:
                self._write(kind, message)
            except OSError as error:  # an incomplete checkpoint may have filled the disk
                with suppress(OSError):
                    keep_the_last(self.file.parent)
                self._write(kind, f"{message} ({error})" if message else "")

    def _write(self, kind: str, message: str) -> None:
        write_text(self.file, json.dumps({"kind": kind, "words": message}))


class _Watchdog(threading.Thread):
    """A thread that ends this process, even while it waits, if a process that it needs has died.

    verl waits for responses of a server without a time limit. Without its head, Ray aborts the
    driver after a minute with a C++ stack trace.
    """

    def __init__(self, check: Callable[[], str | None], outcome: _Outcome) -> None:
        """`check` returns a message if a process was lost, else None."""
        super().__init__(daemon=True)
        self.check = check
        self.outcome = outcome
        self.stopped = threading.Event()
        self.parent = os.getppid()
        self.failed_checks = 0  # in a row

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()

    def run(self) -> None:
        """Check every POLL_SECONDS until the `with` block ends."""
        while not self.stopped.wait(POLL_SECONDS):
            lost = self._lost()
            # Linux gives a process whose parent has died another parent.
            if os.getppid() != self.parent:
                lost = "the supervisor has died"
            if lost is not None and not self.stopped.is_set():
                self.outcome.record(LostProcess.__name__, lost)
                os._exit(1)  # sys.exit would end this thread only

    def _lost(self) -> str | None:
        """Return a message if a process was lost, else None.

        A check that fails several times in a row counts as a lost process.
        """
        try:
            lost = self.check()
        except Exception as error:  # Ray raises many types, also for a slow head
            self.failed_checks += 1
            if self.failed_checks < MAX_FAILED_CHECKS:
                return None
            message = " ".join(f"{type(error).__name__}: {error}".split())
            return f"Ray has not answered {self.failed_checks} times in a row: {message}"
        self.failed_checks = 0
        return lost


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
