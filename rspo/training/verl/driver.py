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
from contextlib import suppress
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError, LostProcess
from rspo.core.files import write_text
from rspo.core.signals import Stopped, accept_requests
from rspo.training.verl import ray_cluster as cluster
from rspo.training.verl.checkpoints import OUTCOME_FILE

TRAINED = "trained"
POLL_SECONDS = 1.0
DETECTION_SECONDS = 30.0  # in which Ray detects a lost process


def main(config_file: Path, folder: Path) -> None:
    """Train until the last checkpoint, a stop request, or the first failure."""
    from omegaconf import OmegaConf

    accept_requests()
    config = OmegaConf.load(config_file)
    OmegaConf.set_struct(config, True)
    outcome = Path(config.trainer.default_local_dir) / OUTCOME_FILE
    try:
        with _Watchdog(outcome):
            cluster.start(config, folder)
            _run(config)
        record(outcome, TRAINED, "")
    except Exception as error:
        reason = _reason(error)
        record(outcome, type(reason).__name__, str(reason))


def record(outcome: Path, kind: str, message: str) -> None:
    """Write how the training ended."""
    write_text(outcome, json.dumps({"kind": kind, "words": message}))


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
    """A lost process, or else the original error, in whatever process it was raised."""
    import ray

    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    if isinstance(error, Stopped | LostProcess):
        return error
    if (lost := _lost_actor()) is not None:
        return LostProcess(lost)
    if isinstance(error, InputError):
        return error
    traceback.print_exc()
    last = str(error).strip().splitlines()[-1:]
    message = ": ".join([type(error).__name__, *last])
    return LostProcess(f"verl's driver has failed, see above: {message}")


def _lost_actor() -> str | None:
    """Message about a dead actor; None if Ray does not answer."""
    with suppress(Exception):  # Ray raises many types, also for a slow head
        return cluster.lost_actor()
    return None


class _Watchdog(threading.Thread):
    """Exits this process when a process that it needs has died, even while it waits.

    verl waits for responses of a server without a time limit.
    """

    def __init__(self, outcome: Path) -> None:
        super().__init__(daemon=True)
        self.outcome, self.stopped, self.parent = outcome, threading.Event(), os.getppid()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()

    def run(self) -> None:
        while not self.stopped.wait(POLL_SECONDS):
            lost = _lost_actor()
            if os.getppid() != self.parent:
                lost = "the supervisor has died"
            if lost is not None and not self.stopped.is_set():
                try:
                    record(self.outcome, LostProcess.__name__, lost)
                finally:  # also on a full disk
                    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
