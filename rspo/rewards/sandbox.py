"""Worker processes with limits, for the verifiers `rules` and `math_verify`.

A worker is a plain subprocess (`rspo.rewards.sandbox_worker`) that communicates over pipes. It
imports neither torch nor the main module of the caller, and can be started from threads, from
daemonic processes and inside Ray. Each worker runs only one verifier, because `rules` disables
SymPy's evaluation of text, and `math_verify` needs it. Workers start on demand, at most one per CPU
and verifier, and later batches reuse them. RSPO_WORKERS limits how many rows all processes of a
node verify at the same time (`rspo.rewards.slots`). Workers end with the process that started
them: `close` kills them at exit. If the process is killed, the kernel kills them, or they end
because their input closes.
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
from rspo.config.names import BOX_ONLY
from rspo.core.checkout import install_hint
from rspo.core.cpus import usable_cpus
from rspo.core.errors import InputError
from rspo.rewards import slots
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

# Characters of a box that is compared. The longest answer of the eight benchmarks has 210
# characters, but a box may hold a full sentence.
LONGEST_ANSWER = 10_000
_CLOSED = "the workers were closed, by an error or an interrupt elsewhere"


def verify(
    verifier: str,
    responses: Sequence[str],
    answers: Sequence[tuple[str, ...]],
    time_limit: float,
    extract: Sequence[str] = BOX_ONLY,
) -> list[Verdict]:
    """Compute the verdicts of `rules` or `math_verify`, several rows at the same time.

    A row is a response with its answer. A row that times out or kills its worker does not affect
    other rows.

    Args:
        extract: see `rspo.rewards.verify`.

    Raises: CancelledError if this or another thread calls `close` meanwhile.
    """
    stop = threading.Event()
    pending: list[Future[Verdict]] = []
    try:
        with _lock:
            _batches.add(stop)
        for response, accepted in zip(responses, answers, strict=True):
            predictions = final_answers(response, extract)
            row = _threads().submit(_verify_one, verifier, predictions, accepted, time_limit, stop)
            pending.append(row)
        return [row.result() for row in pending]
    except BaseException:  # above all KeyboardInterrupt: do not wait for the remaining rows
        is_closed = stop.is_set()
        stop.set()
        for row in pending:
            row.cancel()
        if not is_closed:  # another `close` would end the calls that started since the first one
            close()
        raise
    finally:
        with _lock:
            _batches.discard(stop)


def _verify_one(
    verifier: str,
    predictions: list[str],
    accepted: tuple[str, ...],
    time_limit: float,
    stop: threading.Event,
) -> Verdict:
    """The verdict on one response. It needs a worker only if comparing the texts does not decide.

    Args:
        predictions: the answers that the response may give.
        accepted: accepted forms of the answer.
        time_limit: in seconds of processor time.
        stop: set if no further worker may start.
    """
    if not predictions:
        return Verdict(NO_ANSWER)
    if any(form.strip() in predictions for form in accepted):
        return Verdict(CORRECT)
    if max(map(len, predictions)) > LONGEST_ANSWER:
        return Verdict(TOO_LONG)
    with slots.slot(stop.is_set):
        return _verify_in_worker(verifier, predictions, accepted, time_limit, stop)


def _verify_in_worker(
    verifier: str,
    predictions: list[str],
    accepted: tuple[str, ...],
    time_limit: float,
    stop: threading.Event,
) -> Verdict:
    """The verdict of a worker on one response; see `_verify_one` for the arguments."""
    worker = _take_worker(verifier, stop)
    row = {"accepted": accepted, "predictions": predictions, "seconds": time_limit}
    try:
        worker.stdin.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
        reply = worker.stdout.readline()  # type: ignore[union-attr]
    except OSError:  # the worker has died
        reply = ""
    if reply:
        with _lock:
            _idle.setdefault(verifier, []).append(worker)
        return Verdict(CORRECT if json.loads(reply) else INCORRECT)
    status = _end(worker)  # minus the number of the signal, if one ended it
    return Verdict(TIMEOUT if -status in SIGNALS_OF_LIMITS else WORKER_DIED)


def _take_worker(verifier: str, stop: threading.Event) -> Worker:
    """Take an idle worker, or start a new one.

    Raises: InputError if a new worker does not start; CancelledError if `stop` is set.
    """
    with _lock:  # `close` must either see a process or prevent its start
        if stop.is_set():
            raise CancelledError(_CLOSED)
        idle = _idle.setdefault(verifier, [])
        while idle:
            worker = idle.pop()
            if worker.poll() is None:  # it still runs
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
    # `rules` needs the library too, for formulas that its own parser does not support.
    if importlib.util.find_spec("math_verify") is None:
        raise InputError(f"verifier {verifier!r} needs math-verify: {install_hint('math')}")
    # The worker must import the same package, which may be in a checkout that is not installed.
    paths = [str(Path(rspo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    main = f"main({verifier!r}, parent={os.getpid()})"
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",  # each thread reserves address space, which is limited
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
    """Close the pipes of a worker that is exiting, and return its exit status.

    Raises: CancelledError if `close` has killed the worker, because its row then has no verdict.
    """
    worker.communicate()
    with _lock:
        if worker not in _all:
            raise CancelledError(_CLOSED)
        _all.remove(worker)
    return worker.returncode


# --- the workers of this process ------------------------------------------------------------------

_lock = threading.Lock()
_shared: ThreadPoolExecutor | None = None  # its threads verify one row at a time each
_all: set[Worker] = set()  # idle and busy workers; a worker that is not in it was closed
_batches: set[threading.Event] = set()  # `stop` of each call of `verify` that has not returned
# Idle workers by verifier. Each list is a stack, so a series of single rows uses one worker only.
_idle: dict[str, list[Worker]] = {}


def _threads() -> ThreadPoolExecutor:
    """The threads that verify rows: one for each CPU that this process may use.

    RSPO_WORKERS limits their number, too. They are never shut down, because Linux kills a worker
    when the thread that started it ends.
    """
    global _shared
    with _lock:
        if _shared is None:
            cpus = usable_cpus()
            count = min(cpus, slots.limit() or cpus)
            _shared = ThreadPoolExecutor(count, thread_name_prefix="verifier")
        return _shared


def close() -> None:
    """Kill all workers, and end all calls of `verify`. The next call starts new workers."""
    with _lock:
        for stop in _batches:  # rows that wait for a slot or for a thread have no worker to kill
            stop.set()
        for worker in _all:
            worker.kill()
            worker.wait()
        _all.clear()
        _idle.clear()


def _forget() -> None:
    """Forget the threads and workers of the parent, in a child process after a fork.

    Threads do not survive a fork, and the workers belong to the parent.
    """
    global _shared, _lock
    _lock = threading.Lock()
    _shared = None
    _all.clear()
    _idle.clear()
    _batches.clear()
    slots.forget()


atexit.register(close)
# `Popen` waits until a pipe closes, which tells it that the worker runs. A fork at this time would
# copy the pipe, so `Popen` would wait until the forked process ends. Workers start under the lock,
# so a fork takes the lock too.
os.register_at_fork(
    before=lambda: _lock.acquire(),
    after_in_parent=lambda: _lock.release(),
    after_in_child=_forget,
)
