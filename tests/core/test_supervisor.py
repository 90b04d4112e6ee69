"""What a supervised command leaves behind: nothing, whoever is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rspo.core import supervisor
from tests.support import ROOT
from tests.support.processes import LONGEST_WAIT, wait_until

# Starts two grandchildren in sessions of their own, and tells their numbers: one takes no notice of
# SIGTERM, the other has a title, as Ray's and vLLM's processes have.
COMMAND = """
import os, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
titled = "import setproctitle, time; setproctitle.setproctitle('T' * 5000)"
titled += "; print(flush=True); time.sleep(600)"
start = lambda code, output=None: subprocess.Popen(
    [sys.executable, "-c", code], stdout=output, start_new_session=True
)
children = [start(deaf), start(titled, subprocess.PIPE)]
children[1].stdout.read(1)
numbers = [os.getpid(), *(child.pid for child in children)]
open(sys.argv[1] + "/pids", "w").write(" ".join(map(str, numbers)) + "\\n")
time.sleep(float(sys.argv[2]))
"""
PARENT = """
import sys
from pathlib import Path
from rspo.core.supervisor import supervised
command = [sys.executable, "-c", sys.argv[1], sys.argv[2], sys.argv[3]]
with supervised(command, "RSPO_TEST_" + str(hash(sys.argv[2])), Path(sys.argv[2])) as process:
    print(process.pid, flush=True)
    process.wait()
"""


def start(folder: Path, seconds: float) -> tuple["subprocess.Popen[str]", list[int]]:
    """Somebody who runs the command under a supervisor; the numbers of all that follows."""
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, COMMAND, str(folder), str(seconds)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    supervisor, note = int(parent.stdout.readline()), folder / "pids"
    wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
    return parent, [supervisor, *map(int, note.read_text().split())]


@pytest.mark.ci
def test_nothing_is_left_whoever_is_killed(tmp_path: Path) -> None:
    runs = {
        victim: start(tmp_path / victim, 0 if victim == "nobody" else 600)
        for victim in ("parent", "supervisor", "command", "nobody")
    }
    os.kill(runs["parent"][0].pid, signal.SIGKILL)
    os.kill(runs["supervisor"][1][0], signal.SIGKILL)
    os.kill(runs["command"][1][1], signal.SIGKILL)
    for victim, (parent, pids) in runs.items():
        parent.wait(LONGEST_WAIT)
        wait_until(lambda pids=pids: not any(map(psutil.pid_exists, pids)))
        wait_until(lambda folder=tmp_path / victim: not folder.exists())


def test_a_process_that_cannot_be_killed_is_named_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that waits for a disk: here, one that nobody really tells to end."""
    key = f"RSPO_TEST_{tmp_path.name}"
    deaf = subprocess.Popen(["sleep", "600"], env=os.environ | {key: "1"})
    wait_until(lambda: key in psutil.Process(deaf.pid).environ())  # empty until exec has finished
    monkeypatch.setattr(supervisor, "_SECONDS_TO_END", 0)
    monkeypatch.setattr(supervisor, "_SECONDS_TO_DIE", 0.5)
    for word in ("terminate", "kill"):
        monkeypatch.setattr(psutil.Process, word, lambda process: None)
    try:
        supervisor.clean_up(key, tmp_path)
    finally:
        deaf.send_signal(signal.SIGKILL)
        deaf.wait()
    assert capsys.readouterr().err == f"rspo: could not kill process {deaf.pid}\n"
    assert not tmp_path.exists()


def test_a_process_that_is_starting_a_program_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no environment for a moment."""
    key = f"RSPO_TEST_{tmp_path.name}"
    starting = subprocess.Popen(["sleep", "600"], env=os.environ | {key: "1"})
    wait_until(lambda: key in psutil.Process(starting.pid).environ())
    environ, looks = psutil.Process.environ, []

    def empty_at_first(process: psutil.Process) -> dict[str, str]:
        if process.pid != starting.pid:
            return environ(process)
        looks.append(process)
        return environ(process) if len(looks) > 1 else {}

    monkeypatch.setattr(psutil.Process, "environ", empty_at_first)
    supervisor.clean_up(key, tmp_path)
    assert not psutil.pid_exists(starting.pid)
    starting.wait()
