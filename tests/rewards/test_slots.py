"""RSPO_WORKERS limits the rows that all processes of a node verify at the same time."""

import logging
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rspo.core.errors import InputError
from rspo.rewards import is_correct, sandbox, slots
from tests.support import ROOT
from tests.support.attacks import boxed
from tests.support.processes import processes_with, wait_until

VERIFY = r"""
from rspo.rewards import is_correct
print(is_correct([r"\boxed{0.5}"] * 5, [r"\frac{1}{2}"] * 5) == [True] * 5)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that no other process of this machine uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


ROW = ([boxed("0.5")], [r"\frac{1}{2}"])
HOLD = """
import time
from rspo.rewards import slots
with slots.slot(lambda: False):
    print("held", flush=True)
    time.sleep(600)
"""


def never() -> bool:
    return False


@contextmanager
def slot_of_another_process() -> "Iterator[subprocess.Popen[str]]":
    """A process that holds a slot, and is killed in the end."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def test_another_process_waits_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "2")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(slots.slot(never))
        waiting = subprocess.Popen(
            [sys.executable, "-c", VERIFY], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        time.sleep(3)
        assert waiting.poll() is None
        assert processes_with("rspo.rewards.sandbox_worker", waiting.pid) == []
    assert waiting.communicate(timeout=120) == ("True\n", None)


def test_a_thread_waits_for_a_slot_of_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    entered = threading.Event()

    def enter() -> None:
        with slots.slot(never):
            entered.set()

    with slots.slot(never):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join()


def test_a_killed_process_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    with slot_of_another_process() as holder:
        assert slots._free_slot(1) is None
        holder.kill()
        holder.wait()
        assert is_correct(*ROW) == [True]


def test_closing_wakes_a_thread_that_waits_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process is suspended, as by Ctrl-Z, so that its slot never becomes free."""
    monkeypatch.setenv(slots.VARIABLE, "1")
    with slot_of_another_process() as holder, ThreadPoolExecutor(1) as threads:
        holder.send_signal(signal.SIGSTOP)
        waiting = threads.submit(is_correct, *ROW)
        time.sleep(0.5)
        assert not waiting.done()
        sandbox.close()
        with monkeypatch.context() as closed:
            closed.setattr(sandbox, "close", lambda: pytest.fail("ends later calls, too"))
            with pytest.raises(CancelledError, match="closed"):
                waiting.result(10)
    assert is_correct(*ROW) == [True]


def test_a_long_wait_is_one_warning_that_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    monkeypatch.setattr(slots, "_SECONDS_TO_WARNING", 0.2)
    monkeypatch.setattr(slots, "_warned", threading.Event())
    with (
        caplog.at_level(logging.WARNING),
        ThreadPoolExecutor(3) as threads,
        slot_of_another_process() as holder,
    ):
        waiting = [threads.submit(is_correct, *ROW) for _ in range(3)]
        time.sleep(1.5)
        holder.kill()
        assert [row.result(60) for row in waiting] == [[True]] * 3
    (message,) = caplog.messages
    assert message.startswith("a response has waited 0 s for one of the 1 slots of RSPO_WORKERS;")
    assert message.endswith(f"have locked the files in {slots._folder()}")


def test_the_folder_may_be_removed_while_a_row_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    with slot_of_another_process(), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(is_correct, *ROW)
        time.sleep(0.3)
        shutil.rmtree(slots._folder())
        assert waiting.result(60) == [True]


@pytest.mark.parametrize("kind", ["file", "dangling link", "folder in the place of a slot"])
def test_a_folder_that_cannot_be_used_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    folder = slots._folder()
    if kind == "file":
        folder.write_text("")
    elif kind == "dangling link":
        folder.symlink_to("nowhere")
    else:
        (folder / "0").mkdir(parents=True)
    with pytest.raises(InputError, match=f"^RSPO_WORKERS needs the folder {folder}: [A-Z][a-z ]+"):
        is_correct(*ROW)


def test_a_stopped_batch_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    with slots.slot(never), slots.slot(lambda: True):
        pass


def test_a_process_has_no_more_workers_than_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "1")
    monkeypatch.setattr(sandbox, "_shared", None)
    sandbox.close()
    count = 12
    assert all(is_correct([boxed("0.5")] * count, [r"\frac{1}{2}"] * count))
    wait_until(lambda: len(sandbox._all) == 1)
    sandbox.close()


@pytest.mark.ci
def test_eight_processes_share_two_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slots.VARIABLE, "2")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", VERIFY], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(8)
    ]
    for process in processes:
        output, _ = process.communicate(timeout=600)
        assert output == "True\n"


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "9" * 5000, "00", "\u0663"])
def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(slots.VARIABLE, value)
    with pytest.raises(InputError, match="RSPO_WORKERS"):
        is_correct([boxed("0.5")], [r"\frac{1}{2}"])
