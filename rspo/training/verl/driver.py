"""verl's driver: the process that trains. `rspo train` survives its failure.

    python -m rspo.training.verl.driver CONFIG FOLDER

`run.py` starts it under a supervisor, with the cell's `verl.yaml` and a folder for Ray. Unless it
is killed, it writes its outcome to a file beside the checkpoint.
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
DETECTION_SECONDS = 30.0  # in which Ray detects a lost process
MAX_FAILED_CHECKS = 3  # in a row; without Ray's head, each may take a minute


def main(config_file: Path, folder: Path) -> None:
    """Train until the last checkpoint, a stop request, or the first failure."""
    from omegaconf import OmegaConf

    accept_requests()
    config = OmegaConf.load(config_file)
    OmegaConf.set_struct(config, True)
    outcome = _Outcome(Path(config.trainer.default_local_dir) / OUTCOME_FILE)
    try:
        with _Watchdog(cluster.lost_process, outcome):
            cluster.start(config, folder)
            with _Watchdog(cluster.lost_actor, outcome):
                _run(config)
        outcome.record(TRAINED, "")
    except Exception as error:
        reason = _reason(error)
        outcome.record(type(reason).__name__, str(reason))


def train(config: Any) -> None:
    """Imports verl, for which the environment must be set."""
    from rspo.training.verl import trainer

    trainer.train(config)


def _run(config: Any) -> None:
    """Train; after an unexpected error, give the watchdog time to find a lost process.

    When a process is lost, those that use it fail at once with any error. Ray detects it only
    later; the watchdog then reports it and exits.
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
    """The original error, in whatever process it was raised; an unexpected one as a LostProcess."""
    import ray

    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    if isinstance(error, InputError | LostProcess | Stopped):
        return error
    traceback.print_exc()
    last = str(error).strip().splitlines()[-1:]
    message = ": ".join([type(error).__name__, *last])
    return LostProcess(f"verl's driver has failed, see above: {message}")


class _Outcome:
    """Writes how the training ended; only the first record counts."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock, self.recorded = file, threading.Lock(), False

    def record(self, kind: str, message: str) -> None:
        with self.lock:
            if self.recorded:
                return
            self.recorded = True
            try:
                self._write(kind, message)
            except OSError as error:  # such as a disk filled by an incomplete checkpoint
                with suppress(OSError):
                    keep_the_last(self.file.parent)
                self._write(kind, f"{message} ({error})" if message else "")

    def _write(self, kind: str, message: str) -> None:
        write_text(self.file, json.dumps({"kind": kind, "words": message}))


class _Watchdog(threading.Thread):
    """Exits this process when a process that it needs has died, even while it waits.

    verl waits for responses of a server without a time limit. Without its head, Ray aborts the
    driver after a minute with a C++ stack trace.
    """

    def __init__(self, check: Callable[[], str | None], outcome: _Outcome) -> None:
        """`check` returns a message if a process was lost."""
        super().__init__(daemon=True)
        self.check, self.outcome, self.stopped = check, outcome, threading.Event()
        self.parent, self.failed = os.getppid(), 0

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()

    def run(self) -> None:
        while not self.stopped.wait(POLL_SECONDS):
            lost = self._lost()
            if os.getppid() != self.parent:
                lost = "the supervisor has died"
            if lost is not None and not self.stopped.is_set():
                self.outcome.record(LostProcess.__name__, lost)
                os._exit(1)

    def _lost(self) -> str | None:
        """Message about a lost process; repeated failures of the check count as one."""
        try:
            lost = self.check()
        except Exception as error:  # Ray raises many types, also for a slow head
            self.failed += 1
            if self.failed < MAX_FAILED_CHECKS:
                return None
            message = " ".join(f"{type(error).__name__}: {error}".split())
            return f"Ray has not answered {self.failed} times in a row: {message}"
        self.failed = 0
        return lost


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
