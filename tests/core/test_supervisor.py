"""What a supervised command leaves behind: nothing, whoever is killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
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


KEY = "RSPO_TEST_SUPERVISED"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a script under the supervisor, whose parent ends after some seconds."""

    def run(script: str, seconds: float = 60) -> int:
        reading, writing = os.pipe()
        with os.fdopen(reading) as stream, os.fdopen(writing, "wb", buffering=0) as parent:
            monkeypatch.setattr(sys, "stdin", stream)
            parent.write(b"input that the supervisor ignores")
            end = threading.Timer(seconds, parent.close)
            end.start()
            folder = tmp_path / "folder"
            folder.mkdir()
            status = supervisor.main(KEY, folder, ["sh", "-c", script])
            assert not folder.exists()
            assert not supervisor.processes_with(KEY)
            end.cancel()
            parent.close()
            return status

    return run


def deaf() -> "subprocess.Popen[str]":
    """A process with the key that takes no notice of SIGTERM."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)"],
        env=os.environ | {KEY: "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    return process


@pytest.mark.parametrize(
    ("script", "status"),
    [("true", 0), ("sleep 0.5; exit 3", 3), ("kill -KILL $$", 137), ("sleep 600 & exit 4", 4)],
)
def test_the_status_is_that_of_the_command_as_a_shell_has_it(
    run: Callable[..., int], script: str, status: int
) -> None:
    """Whatever the command leaves running is ended."""
    assert run(script) == status


def test_a_command_ends_with_the_parent(run: Callable[..., int], tmp_path: Path) -> None:
    run(f"sleep 5; touch {tmp_path}/late", seconds=0.5)
    assert not (tmp_path / "late").exists()


def test_a_process_that_takes_no_notice_of_the_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_SECONDS_TO_END", 1)
    process = deaf()
    supervisor.clean_up(KEY, tmp_path)
    assert not psutil.pid_exists(process.pid)
    assert not tmp_path.exists()


def test_a_process_gets_one_signal_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs end at once, without cleaning up, when they get a second one."""
    monkeypatch.setattr(supervisor, "_SECONDS_TO_END", 1)
    script = "trap 'echo ended' TERM; echo began; while :; do sleep 0.1; done"
    process = subprocess.Popen(
        ["sh", "-c", script], env=os.environ | {KEY: "1"}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    supervisor.clean_up(KEY, tmp_path)
    assert process.communicate(timeout=LONGEST_WAIT)[0] == "ended\n"


def test_a_process_that_nothing_kills_is_named_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "_SECONDS_TO_END", -1)
    monkeypatch.setattr(supervisor, "_SECONDS_TO_DIE", 0)
    process = deaf()
    try:
        supervisor.clean_up(KEY, tmp_path)
        assert capsys.readouterr().err == f"rspo: could not kill process {process.pid}\n"
        assert process.poll() is None
        assert not tmp_path.exists()
    finally:
        process.kill()
        process.communicate()


def test_processes_of_other_keys_are_left_alone(tmp_path: Path) -> None:
    process = deaf()
    try:
        supervisor.clean_up(f"{KEY}_OF_ANOTHER", tmp_path)
        assert [item.pid for item in supervisor.processes_with(KEY)] == [process.pid]
    finally:
        process.kill()
        process.communicate()


def test_the_command_ends_with_its_block_and_prints_where_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = ["sh", "-c", "echo out; echo error >&2; exec sleep 60"]
    with (tmp_path / "log").open("w") as log, supervisor.supervised(command, KEY, folder, log):
        wait_until(lambda: (tmp_path / "log").read_text() == "out\nerror\n")
    assert not supervisor.processes_with(KEY)
    assert not folder.exists()


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
