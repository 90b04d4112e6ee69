"""The process that trains: verl's driver, in a process that can be lost without losing the rest.

    python -m rspo.training.verl.driver CONFIG FOLDER

`run.py` starts it under a supervisor, with the cell's `verl.yaml` and a folder for Ray. How it
ended stands in a file beside the checkpoint, unless it was killed.
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
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_UNTIL_RAY_KNOWS = 30.0  # who has died
LOOKS_THAT_FAIL = 3  # one after the other; of Ray's head each may take a minute


def main(config_file: Path, folder: Path) -> None:
    """Train until the last checkpoint, a request to stop, or the first thing that goes wrong."""
    from omegaconf import OmegaConf

    accept_requests()
    config = OmegaConf.load(config_file)
    OmegaConf.set_struct(config, True)
    end = _End(Path(config.trainer.default_local_dir) / OUTCOME_FILE)
    place = cluster.place_of(config.trainer.nnodes, os.environ)
    try:
        with _Watch(cluster.lost_process, end), cluster.head(config, folder, place):
            from rspo.training.verl.task import Task

            with _Watch(cluster.lost_member, end):
                _run(Task(), config)
        end.note(TRAINED, "")
    except Exception as error:
        reason = _reason(error)
        if not isinstance(reason, InputError | LostProcess | Stopped):
            traceback.print_exc()
            reason = LostProcess(f"verl's driver has failed, see above: {_in_words(error)}")
        end.note(type(reason).__name__, str(reason))


def _run(task: Any, config: Any) -> None:
    """Run it; if it fails by nobody's word, leave the watch time to hear who died.

    Whoever needs a process fails as soon as it is gone, in whatever way, and Ray tells of a lost
    node seconds later; the watch then ends this process with the name.
    """
    try:
        task.run(config)
    except (InputError, LostProcess, Stopped):
        raise
    except Exception as error:
        if not isinstance(getattr(error, "cause", None), InputError):
            time.sleep(SECONDS_UNTIL_RAY_KNOWS)
        raise


def _reason(error: Exception) -> Exception:
    """What is behind an error: somebody's death, or what was raised in another process."""
    import ray

    if isinstance(error, Stopped | LostProcess):
        return error
    lost = cluster.lost_process()
    with suppress(Exception):  # Ray, which may be why we are here, does not answer
        lost = lost or (cluster.lost_member() if ray.is_initialized() else None)
    if lost is not None:
        return LostProcess(lost)
    if isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, InputError):
        return error.cause
    return error


def _in_words(error: BaseException) -> str:
    """What was raised in the first place, in whatever process, on one line."""
    import ray

    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[-1:]])


class _End:
    """How the training ended; the first word counts."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock, self.noted = file, threading.Lock(), False

    def note(self, kind: str, words: str) -> None:
        with self.lock:
            if self.noted:
                return
            self.noted = True
            try:
                self._write(kind, words)
            except OSError as error:  # such as a full disk, where half a checkpoint leaves no room
                with suppress(OSError):
                    keep_the_last(self.file.parent)
                self._write(kind, f"{words} ({error})" if words else "")

    def _write(self, kind: str, words: str) -> None:
        write_text(self.file, json.dumps({"kind": kind, "words": words}))


class _Watch(threading.Thread):
    """Ends this process when something that it needs has died, whatever it waits for meanwhile.

    verl waits without a limit for responses of a server, and Ray itself ends a driver without its
    head after a minute, with a trace of C++.
    """

    def __init__(self, look: Callable[[], str | None], end: _End) -> None:
        super().__init__(daemon=True)
        self.look, self.end, self.stopped = look, end, threading.Event()
        self.parent, self.failed = os.getppid(), 0

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()

    def run(self) -> None:
        while not self.stopped.wait(SECONDS_BETWEEN_LOOKS):
            lost = self._lost()
            if os.getppid() != self.parent:
                lost = "the supervisor has died"
            if lost is not None and not self.stopped.is_set():
                self.end.note(LostProcess.__name__, lost)
                os._exit(1)

    def _lost(self) -> str | None:
        """Who has died, in words; so has who cannot be asked, several times in a row."""
        try:
            lost = self.look()
        except Exception as error:  # a slow head, a call that got lost: Ray raises whatever comes
            self.failed += 1
            words = " ".join(f"{type(error).__name__}: {error}".split())
            never = self.failed >= LOOKS_THAT_FAIL
            return f"Ray has not answered {self.failed} times in a row: {words}" if never else None
        self.failed = 0
        return lost


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
