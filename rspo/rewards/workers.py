"""The verifier `math_verify`: its rules, run in worker processes that may be killed at any row.

A worker is a plain subprocess (`rspo.rewards.judge`) that talks over pipes. It imports neither
torch nor the caller's main module, as multiprocessing's would, and can be started from threads,
from daemons and inside Ray. Workers start on first use, one a CPU at most, serve every later
batch of the process, and end with it: by `close` at exit, or because their input closes when
the process is killed.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rspo
from rspo.errors import InputError
from rspo.rewards.extraction import last_box
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
# The longest answer of the eight benchmarks has 210 characters.
LONGEST_ANSWER = 2000


def judge(
    responses: Sequence[str], answers: Sequence[tuple[str, ...]], time_limit: float
) -> list[Verdict]:
    """Verdicts of math-verify; a row that hangs or kills its worker costs only itself."""
    threads = _threads()
    pending = [
        threads.submit(_judge_one, response, accepted, time_limit)
        for response, accepted in zip(responses, answers, strict=True)
    ]
    try:
        return [row.result() for row in pending]
    except BaseException:  # Ctrl-C above all: no row may keep the process waiting
        for row in pending:
            row.cancel()
        close()
        raise


def _judge_one(response: str, accepted: tuple[str, ...], time_limit: float) -> Verdict:
    prediction = last_box(response)
    if prediction is None:
        return Verdict(NO_ANSWER)
    if prediction in (form.strip() for form in accepted):
        return Verdict(CORRECT)
    if len(prediction) > LONGEST_ANSWER:
        return Verdict(TOO_LONG)
    return _worker_of_this_thread().judge(accepted, prediction, time_limit)


class _Worker:
    """One subprocess, started again whenever a row has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def judge(self, accepted: Sequence[str], prediction: str, time_limit: float) -> Verdict:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = _start()
        row = {"accepted": accepted, "prediction": prediction, "seconds": time_limit}
        try:
            process.stdin.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            reply = process.stdout.readline()  # type: ignore[union-attr]
        except OSError:
            reply = ""
        if reply:
            return Verdict(CORRECT if json.loads(reply) else INCORRECT)
        self._process = None
        return Verdict(TIMEOUT if _end(process) == -signal.SIGALRM else WORKER_DIED)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _start() -> "subprocess.Popen[str]":
    if importlib.util.find_spec("math_verify") is None:
        raise InputError("verifier 'math_verify' needs the package math-verify; pip install it")
    from rspo.rewards.judge import READY

    # The package may be imported from a checkout that is not installed.
    paths = [str(Path(rspo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from rspo.rewards.judge import main; main({MEMORY_LIMIT})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # One thread of linear algebra is enough, and each would take address space.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"},
    )
    if process.stdout.readline() != READY:  # type: ignore[union-attr]
        raise RuntimeError(f"a worker of math_verify did not start (exit {_end(process)})")
    return process


def _end(process: "subprocess.Popen[str]") -> int:
    """Close the pipes of a process that is ending and return its exit status."""
    process.communicate()
    return process.returncode


# --- the workers of this process ------------------------------------------------------------------

_lock = threading.Lock()
_shared: ThreadPoolExecutor | None = None
_workers: list[_Worker] = []
_of_thread = threading.local()


def _threads() -> ThreadPoolExecutor:
    """One thread for each CPU that this process may use; each has a worker of its own."""
    global _shared
    with _lock:
        if _shared is None:
            affinity = getattr(os, "sched_getaffinity", None)
            count = len(affinity(0)) if affinity else os.cpu_count()
            _shared = ThreadPoolExecutor(count, thread_name_prefix="math_verify")
        return _shared


def _worker_of_this_thread() -> _Worker:
    if not hasattr(_of_thread, "worker"):
        _of_thread.worker = _Worker()
        with _lock:
            _workers.append(_of_thread.worker)
    worker: _Worker = _of_thread.worker
    return worker


def close() -> None:
    """End all workers; the next row starts one again."""
    with _lock:
        for worker in _workers:
            worker.close()


def _forget() -> None:
    """In a forked child: its parent's threads and workers are not its own."""
    global _shared, _lock
    _lock = threading.Lock()
    _shared = None
    _workers.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
