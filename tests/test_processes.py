"""What the tests themselves start: it does not outlive them, and reacts to Ctrl-C."""

import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

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


def test_every_test_is_checked(request: pytest.FixtureRequest) -> None:
    assert "no_process_outlives_its_test" in request.fixturenames
    assert "no_process_outlives_its_module" in request.fixturenames


def test_child_processes_do_not_ignore_ctrl_c() -> None:
    """Not even below `nohup` and in the background, where a shell ignores it."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.stdout == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
