"""RSPO_WORKERS limits the rows that all processes of a node verify at the same time."""

import subprocess
import sys
import threading
import time
from contextlib import ExitStack
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


def never() -> bool:
    return False


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
    program = (
        "import time\nfrom rspo.rewards import slots\n"
        "with slots.slot(lambda: False):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert slots._free_slot(slots._folder(), 1) is None
    holder.kill()
    holder.communicate()
    assert is_correct([boxed("0.5")], [r"\frac{1}{2}"]) == [True]


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


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(slots.VARIABLE, value)
    with pytest.raises(InputError, match="RSPO_WORKERS"):
        is_correct([boxed("0.5")], [r"\frac{1}{2}"])
