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
from typing import TypeAlias

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

Worker: TypeAlias = "subprocess.Popen[str]"

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

    Raises: CancelledError if `close` is called meanwhile, by this or another thread.
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
    """The verdict on one response; needs a worker only if its text does not decide."""
    predictions = final_answers(response)
    if not predictions:
        return Verdict(NO_ANSWER)
    if any(form.strip() in predictions for form in accepted):
        return Verdict(CORRECT)
    if max(map(len, predictions)) > LONGEST_ANSWER:
        return Verdict(TOO_LONG)
    worker = _take_worker(verifier, stop)
    row = {"accepted": accepted, "predictions": predictions, "seconds": time_limit}
    try:
        worker.stdin.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
        reply = worker.stdout.readline()  # type: ignore[union-attr]
    except OSError:
        reply = ""
    if reply:
        with _lock:
            _idle.setdefault(verifier, []).append(worker)
        return Verdict(CORRECT if json.loads(reply) else INCORRECT)
    status = _end(worker)  # negative if a signal ended it
    return Verdict(TIMEOUT if -status in SIGNALS_OF_LIMITS else WORKER_DIED)


def _take_worker(verifier: str, stop: threading.Event) -> Worker:
    """An idle worker, or a new one.

    Raises: InputError if a new one does not start; CancelledError after `stop`.
    """
    with _lock:  # `close` must either see a process or prevent its start
        if stop.is_set():
            raise CancelledError
        idle = _idle.setdefault(verifier, [])
        while idle:
            worker = idle.pop()
            if worker.poll() is None:
                return worker
            _all.discard(worker)
        worker = _start(verifier)
        _all.add(worker)
    reply = worker.stdout.readline()  # type: ignore[union-attr]
    if reply != READY:
        status = _end(worker)
        reason = reply.strip() or f"exit status {status}"
        raise InputError(f"a worker of the verifier {verifier!r} does not start: {reason}")
    return worker


def _start(verifier: str) -> Worker:
    """Start a process that runs a verifier. It writes READY once its libraries are imported."""
    if importlib.util.find_spec("math_verify") is None:
        raise InputError(f"verifier {verifier!r} needs math-verify: pip install 'rspo[math]'")
    # The package may be imported from a checkout that is not installed.
    paths = [str(Path(rspo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    main = f"main({verifier!r}, parent={os.getpid()})"
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


def _end(worker: Worker) -> int:
    """Close the pipes of a process that is exiting and return its exit status.

    Raises: CancelledError if `close` has killed it: its row has no verdict.
    """
    worker.communicate()
    with _lock:
        if worker not in _all:
            raise CancelledError("the workers were closed, by an error or an interrupt elsewhere")
        _all.remove(worker)
    return worker.returncode


# --- the workers of this process ------------------------------------------------------------------

_lock = threading.Lock()
_shared: ThreadPoolExecutor | None = None  # one thread per row in progress
_all: set[Worker] = set()
# By verifier. Used as a stack: a series of single rows keeps one worker busy and starts no second.
_idle: dict[str, list[Worker]] = {}


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
            worker.kill()
            worker.wait()
        _all.clear()
        _idle.clear()


def _forget() -> None:
    """Drop the parent's threads and workers in a forked child."""
    global _shared, _lock
    _lock = threading.Lock()
    _shared = None
    _all.clear()
    _idle.clear()


atexit.register(close)
# A fork while a worker starts would copy the pipe by which `Popen` learns that the worker runs: it
# would wait until the forked process ends. Workers start under the lock, so a fork takes it too.
os.register_at_fork(
    before=lambda: _lock.acquire(),
    after_in_parent=lambda: _lock.release(),
    after_in_child=_forget,
)
