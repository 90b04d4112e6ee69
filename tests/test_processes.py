"""What the tests themselves start: it does not outlive them, and reacts to Ctrl-C."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support.made_once import made_once
from tests.support.processes import none_left, processes_with


@pytest.mark.parametrize("command", ["sleep {}", "sleep {} &"], ids=["child", "orphan"])
def test_a_process_that_a_test_leaves_is_killed_and_named(command: str) -> None:
    seconds = "6543.21"
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(AssertionError, match=f"left running:\n.*{seconds}"))
        stack.enter_context(none_left(seconds=0.1))
        shell = subprocess.Popen(["sh", "-c", command.format(seconds)])
        if command.endswith("&"):
            shell.wait()
    shell.wait()
    assert processes_with(seconds) == []


def test_child_processes_do_not_ignore_ctrl_c() -> None:
    """Not even below `nohup` and in the background, where a shell ignores it."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.stdout == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("parallel", [True, False])
def test_processes_of_a_run_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: bool
) -> None:
    def make(folder: Path) -> None:
        folder.mkdir()

    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if parallel:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    folders = set()
    for process in ("gw0", "gw1"):
        base = tmp_path / process
        base.mkdir()
        factory = Mock(getbasetemp=lambda base=base: base, mktemp=base.joinpath)
        folders |= {made_once(factory, "name", make) for _ in range(2)}
    assert len(folders) == (1 if parallel else 2)
