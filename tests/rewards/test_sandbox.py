"""Worker processes: no response can block them, and none outlives its parent."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from rspo.core.errors import InputError
from rspo.rewards import is_correct, sandbox, sandbox_worker, verify
from tests.support import ROOT
from tests.support.attacks import ENDLESS, boxed
from tests.support.processes import LONGEST_WAIT, processes_with, wait_until

HANGS = ENDLESS["endless product"]


def workers_of(parent: int) -> list[int]:
    return processes_with("rspo.rewards.sandbox_worker", parent)


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@linux
def test_workers_have_a_memory_limit_and_serve_batch_after_batch() -> None:
    """Also after the thread that verified first: with a worker's own thread, the worker ends."""
    sandbox.close()
    row = ([boxed("0.5")], [r"\frac{1}{2}"])
    verifying = threading.Thread(target=is_correct, args=row)
    verifying.start()
    verifying.join()
    before = workers_of(os.getpid())
    assert len(before) == 1
    os.kill(before[0], signal.SIGINT)  # a terminal sends Ctrl-C to workers too; they ignore it
    assert is_correct(*row) == [True]
    assert workers_of(os.getpid()) == before
    limits = Path(f"/proc/{before[0]}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert line.split()[3] == line.split()[4] == str(sandbox_worker.MEMORY_LIMIT)


@linux
def test_a_killed_worker_affects_only_its_row() -> None:
    sandbox.close()
    verify([boxed("0.5")], [r"\frac{1}{2}"])
    (pid,) = workers_of(os.getpid())  # gets the first row
    worker = psutil.Process(pid)
    used = worker.cpu_times().user
    verdicts = []
    verifying = threading.Thread(
        target=lambda: verdicts.extend(verify([HANGS, boxed("8")], ["7", "8.0"], time_limit=600))
    )
    verifying.start()
    wait_until(lambda: worker.cpu_times().user > used + 0.2)
    worker.kill()
    verifying.join(LONGEST_WAIT)
    assert [verdict.reason for verdict in verdicts] == ["worker died", "correct"]


PROGRAM = """
import sys, threading
from rspo.rewards import verify
verify([r"\\boxed{0.5}"], [r"\\frac{1}{2}"])
print("started", flush=True)
if sys.argv[1] == "busy":
    verify([sys.argv[2]] * 3, ["7"] * 3, time_limit=float(sys.argv[3]))
else:
    threading.Event().wait()
"""


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def run(mode: str, seconds: float) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, mode, HANGS, str(seconds)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@linux
@pytest.mark.parametrize("delay", [0.2, 2.5])
def test_ctrl_c_ends_a_batch_at_once_and_leaves_no_process(
    start: Callable[..., subprocess.Popen[str]], delay: float
) -> None:
    """While a second worker starts, and while both are busy."""
    process = start("busy", 600)
    time.sleep(delay)
    pids = workers_of(process.pid)
    assert pids
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


@linux
@pytest.mark.parametrize("mode", ["idle", "busy"])
def test_a_killed_process_leaves_no_worker(
    start: Callable[..., subprocess.Popen[str]], mode: str
) -> None:
    process = start(mode, 600)
    time.sleep(1)
    pids = workers_of(process.pid)
    assert pids
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


MIXED = [HANGS, boxed("0.5"), boxed("8"), "It is 7."]
REASONS = ["timeout", "correct", "incorrect", "no answer"]


def reasons_of_mixed(_: object = None) -> list[str]:
    found = verify(MIXED, ["7", r"\frac{1}{2}", "7", "7"], time_limit=0.5)
    return [verdict.reason for verdict in found]


def test_many_threads_get_their_own_verdicts() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(reasons_of_mixed, range(8))) == [REASONS] * 8


def verify_and_hang(found: Connection) -> None:
    found.send(reasons_of_mixed())
    verify([HANGS], ["7"], time_limit=600)


@linux
def test_a_forked_process_has_its_own_workers_which_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fork happens while the parent starts a worker and has opened its three pipes."""
    sandbox.close()
    open_pipe = os.pipe
    pipes: list[tuple[int, int]] = []

    def open_pipe_and_pause() -> tuple[int, int]:
        pipes.append(open_pipe())
        time.sleep(0.2)
        return pipes[-1]

    receiving, sending = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=verify_and_hang, args=(sending,))
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(os, "pipe", open_pipe_and_pause)
        of_parent = threads.submit(reasons_of_mixed)
        wait_until(lambda: len(pipes) == 3, pause=0.01)
        monkeypatch.undo()
        child.start()
        try:
            assert receiving.recv() == of_parent.result(LONGEST_WAIT) == REASONS
            assert child.pid is not None
            pids = workers_of(child.pid)
            assert pids
        finally:
            child.kill()
            child.join()
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))
    assert reasons_of_mixed() == REASONS


@linux
def test_a_row_whose_worker_is_closed_by_another_thread_gets_no_verdict() -> None:
    sandbox.close()
    with ThreadPoolExecutor(1) as threads:
        row = threads.submit(verify, [HANGS], ["7"], time_limit=600)
        wait_until(lambda: workers_of(os.getpid()) != [])
        sandbox.close()
        with pytest.raises(CancelledError, match="closed"):
            row.result()


WORKER = """
import sys, time, types
from rspo.rewards import sandbox_worker

def equivalent(accepted, predictions):
    while predictions == ["busy"]:
        pass
    time.sleep(0.5)
    return True

sys.modules["rspo.rewards.rules.equivalence"] = types.SimpleNamespace(equivalent=equivalent)
sandbox_worker.CLOCK_FACTOR = float(sys.argv[1])
sandbox_worker.main("rules", int(sys.argv[2]))
"""


def worker(prediction: str, clock_factor: float, parent: int) -> "subprocess.CompletedProcess[str]":
    """A worker that gets one row with 0.2 seconds of processor time."""
    row = {"accepted": ["7"], "predictions": [prediction], "seconds": 0.2}
    command = [sys.executable, "-c", WORKER, str(clock_factor), str(parent)]
    return subprocess.run(
        command,
        input=json.dumps(row) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.parametrize(
    ("prediction", "clock_factor", "status", "reply"),
    [
        ("sleeps", sandbox_worker.CLOCK_FACTOR, 0, "true\n"),
        ("sleeps", 2, -signal.SIGALRM, ""),
        ("busy", sandbox_worker.CLOCK_FACTOR, -signal.SIGPROF, ""),
    ],
)
def test_the_time_limit_counts_processor_time(
    prediction: str, clock_factor: float, status: int, reply: str
) -> None:
    """A row that takes longer only by the clock, as on a busy machine, gets its verdict."""
    done = worker(prediction, clock_factor, os.getpid())
    assert (done.returncode, done.stdout) == (status, sandbox_worker.READY + reply)


@linux
def test_a_worker_whose_parent_has_ended_does_not_start() -> None:
    done = worker("sleeps", sandbox_worker.CLOCK_FACTOR, parent=0)
    assert (done.returncode, done.stdout) == (1, "")


def test_the_error_says_why_a_worker_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an installed package that refuses the version of another one."""
    (tmp_path / "math_verify.py").write_text("raise ImportError('this ANTLR is\\ntoo old')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sandbox.close()
    with pytest.raises(
        InputError, match=r"verifier 'rules' does not start: ImportError: this ANTLR is too old$"
    ):
        verify([boxed("1/2")], ["0.5"])
    assert workers_of(os.getpid()) == []
