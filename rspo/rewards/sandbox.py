"""Worker processes with limits, for the verifiers `rules` and `math_verify`.

A worker is a plain subprocess (`rspo.rewards.sandbox_worker`) that communicates over pipes. It
imports neither torch nor the main module of the caller, and can be started from threads, from
daemons and inside Ray. Each worker runs one verifier, because the rules disable SymPy's evaluation
of text, which math-verify needs. Workers start on demand, at most one per CPU and verifier, and are
reused by later batches. They end with the process that started them: `close` kills them at exit,
and the kernel or their closing input ends them if the process is killed.
"""

import atexit
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import rspo
from rspo.core.errors import InputError
from rspo.rewards.extraction import final_answers
from rspo.rewards.sandbox_worker import READY, SIGNALS_OF_LIMITS
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
# The longest answer of the eight benchmarks has 210 characters; a box may hold a full sentence.
LONGEST_ANSWER = 10_000


def verify(
    verifier: str,
    responses: Sequence[str],
    answers: Sequence[tuple[str, ...]],
    time_limit: float,
) -> list[Verdict]:
    """Verdicts of `rules` or `math_verify`.

    A row that times out or kills its worker does not affect other rows.
    """
    stop = threading.Event()
    pending: list[Future[Verdict]] = []
    try:
        for response, accepted in zip(responses, answers, strict=True):
            row = _threads().submit(_verify_one, verifier, response, accepted, time_limit, stop)
            pending.append(row)
        return [row.result() for row in pending]
    except BaseException:  # above all KeyboardInterrupt: do not wait for the remaining rows
        stop.set()
        for row in pending:
            row.cancel()
        close()
        raise


def _verify_one(
    verifier: str,
    response: str,
    accepted: tuple[str, ...],
    time_limit: float,
    stop: threading.Event,
) -> Verdict:
    predictions = final_answers(response)
    if not predictions:
        return Verdict(NO_ANSWER)
    if not {form.strip() for form in accepted}.isdisjoint(predictions):
        return Verdict(CORRECT)
    if max(map(len, predictions)) > LONGEST_ANSWER:
        return Verdict(TOO_LONG)
    with _lock:
        idle = _idle.setdefault(verifier, [])
        if not idle:
            idle.append(_Worker(verifier))
            _all.append(idle[-1])
        worker = idle.pop()
    try:
        return worker.verify(accepted, predictions, time_limit, stop)
    finally:
        with _lock:
            idle.append(worker)


class _Worker:
    """One subprocess, restarted after a row that ended it."""

    def __init__(self, verifier: str) -> None:
        self._verifier = verifier
        self._process: subprocess.Popen[str] | None = None

    def verify(
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
        return Verdict(TIMEOUT if -_end(process) in SIGNALS_OF_LIMITS else WORKER_DIED)

    def _running(self, stop: threading.Event) -> "subprocess.Popen[str]":
        """The process, started if necessary."""
        with _lock:  # `close` must either see the process or prevent its start
            if stop.is_set():
                raise CancelledError
            if self._process is not None and self._process.poll() is None:
                return self._process
            process = self._process = _start(self._verifier)
        if process.stdout.readline() != READY:  # type: ignore[union-attr]
            raise RuntimeError(f"a worker of {self._verifier} did not start (exit {_end(process)})")
        return process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _start(verifier: str) -> "subprocess.Popen[str]":
    if importlib.util.find_spec("math_verify") is None:
        raise InputError(f"verifier {verifier!r} needs math-verify: pip install 'rspo[math]'")
    # The package may be imported from a checkout that is not installed.
    paths = [str(Path(rspo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    main = f"main({verifier!r}, {MEMORY_LIMIT}, parent={os.getpid()})"
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",  # each thread reserves address space
    }
    return subprocess.Popen(
        [sys.executable, "-c", f"from rspo.rewards.sandbox_worker import main; {main}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | environment,
    )


def _end(process: "subprocess.Popen[str]") -> int:
    """Close the pipes of a process that is exiting and return its exit status."""
    process.communicate()
    return process.returncode


# --- the workers of this process ------------------------------------------------------------------

_lock = threading.Lock()
_shared: ThreadPoolExecutor | None = None  # one thread per row in progress
_all: list[_Worker] = []
# By verifier. Used as a stack: a series of single rows keeps one worker busy and starts no second.
_idle: dict[str, list[_Worker]] = {}


def _threads() -> ThreadPoolExecutor:
    """As many threads as this process may use CPUs.

    They are never shut down: on Linux, a worker is killed when the thread that started it ends.
    """
    global _shared
    with _lock:
        if _shared is None:
            affinity = getattr(os, "sched_getaffinity", None)
            count = len(affinity(0)) if affinity else os.cpu_count()
            _shared = ThreadPoolExecutor(count, thread_name_prefix="verifier")
        return _shared


def close() -> None:
    """Kill all workers. The next row starts one again."""
    with _lock:
        for worker in _all:
            worker.close()


def _forget() -> None:
    """Drop the parent's threads and workers in a forked child."""
    global _shared, _lock
    _lock = threading.Lock()
    _shared = None
    _all.clear()
    _idle.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
