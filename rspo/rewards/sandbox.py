"""The verifier `math_verify`: its rules, run in worker processes that may be killed at any row.

A worker is a plain subprocess (`rspo.rewards.sandbox_worker`) that talks over pipes. It imports
neither torch nor the main module of the caller, and can be started from threads,
from daemons and inside Ray. Workers start when a row needs one, one a CPU at most, serve every
later batch of the process, and end with it: by `close` at exit, or because their input closes
when the process is killed.
"""

import atexit
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import rspo
from rspo.core.errors import InputError
from rspo.rewards.extraction import final_answers
from rspo.rewards.sandbox_worker import READY
from rspo.rewards.verdict import (
    CORRECT,
    INCORRECT,
    NO_ANSWER,
    TIMEOUT,
    TOO_LONG,
    WORKER_DIED,
    Verdict,
)

MEMORY_LIMIT = 2 * 2**30  # bytes of address space of one worker
# The longest answer of the eight benchmarks has 210 characters; a box may hold a whole sentence.
LONGEST_ANSWER = 10_000


def judge(
    responses: Sequence[str], answers: Sequence[tuple[str, ...]], time_limit: float
) -> list[Verdict]:
    """Verdicts of math-verify; a row that hangs or kills its worker costs only itself."""
    stop = threading.Event()
    pending: list[Future[Verdict]] = []
    try:
        for response, accepted in zip(responses, answers, strict=True):
            row = _threads().submit(_judge_one, response, accepted, time_limit, stop)
            pending.append(row)
        return [row.result() for row in pending]
    except BaseException:  # Ctrl-C above all: no row may keep the process waiting
        stop.set()
        for row in pending:
            row.cancel()
        close()
        raise


def _judge_one(
    response: str, accepted: tuple[str, ...], time_limit: float, stop: threading.Event
) -> Verdict:
    predictions = final_answers(response)
    if not predictions:
        return Verdict(NO_ANSWER)
    if not {form.strip() for form in accepted}.isdisjoint(predictions):
        return Verdict(CORRECT)
    if max(map(len, predictions)) > LONGEST_ANSWER:
        return Verdict(TOO_LONG)
    with _lock:
        if not _idle:
            _idle.append(_Worker())
            _all.append(_idle[-1])
        worker = _idle.pop()
    try:
        return worker.judge(accepted, predictions, time_limit, stop)
    finally:
        with _lock:
            _idle.append(worker)


class _Worker:
    """One subprocess, started again whenever a row has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def judge(
        self,
        accepted: Sequence[str],
        predictions: Sequence[str],
        time_limit: float,
        stop: threading.Event,
    ) -> Verdict:
        process = self._running(stop)
        row = {"accepted": accepted, "predictions": predictions, "seconds": time_limit}
        try:
            process.stdin.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            reply = process.stdout.readline()  # type: ignore[union-attr]
        except OSError:
            reply = ""
        if reply:
            return Verdict(CORRECT if json.loads(reply) else INCORRECT)
        return Verdict(TIMEOUT if _end(process) == -signal.SIGALRM else WORKER_DIED)

    def _running(self, stop: threading.Event) -> "subprocess.Popen[str]":
        """The process, started if need be."""
        with _lock:  # so that `close` either sees the process or keeps it from being started
            if stop.is_set():
                raise CancelledError
            if self._process is not None and self._process.poll() is None:
                return self._process
            process = self._process = _start()
        if process.stdout.readline() != READY:  # type: ignore[union-attr]
            raise RuntimeError(f"a worker of math_verify did not start (exit {_end(process)})")
        return process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _start() -> "subprocess.Popen[str]":
    if importlib.util.find_spec("math_verify") is None:
        raise InputError("verifier 'math_verify' needs the package math-verify; pip install it")
    # The package may be imported from a checkout that is not installed.
    paths = [str(Path(rspo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from rspo.rewards.sandbox_worker import main; main({MEMORY_LIMIT})",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # One thread of linear algebra is enough, and each would take address space.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"},
    )


def _end(process: "subprocess.Popen[str]") -> int:
    """Close the pipes of a process that is ending and return its exit status."""
    process.communicate()
    return process.returncode


# --- the workers of this process ------------------------------------------------------------------

_lock = threading.Lock()
_shared: ThreadPoolExecutor | None = None  # a thread for each row that is being judged
_all: list[_Worker] = []
_idle: list[_Worker] = []  # the last one used is the next: single rows start no second worker


def _threads() -> ThreadPoolExecutor:
    """As many threads as this process may use CPUs."""
    global _shared
    with _lock:
        if _shared is None:
            affinity = getattr(os, "sched_getaffinity", None)
            count = len(affinity(0)) if affinity else os.cpu_count()
            _shared = ThreadPoolExecutor(count, thread_name_prefix="math_verify")
        return _shared


def close() -> None:
    """End all workers; the next row starts one again."""
    with _lock:
        for worker in _all:
            worker.close()


def _forget() -> None:
    """In a forked child: its parent's threads and workers are not its own."""
    global _shared, _lock
    _lock = threading.Lock()
    _shared = None
    _all.clear()
    _idle.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
