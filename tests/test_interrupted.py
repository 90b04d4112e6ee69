"""Ctrl-C while the `rspo` command starts."""

import subprocess
import sys

import pytest

# Sends SIGINT to the process itself when it begins to import a module. This is the same moment on
# each machine, however loaded it is.
PROGRAM = """
import os
import runpy
import signal
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None


signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder)
sys.argv = ["rspo", {word!r}]
runpy.run_module("rspo", run_name="__main__")
"""
# In the order in which `rspo status` imports them.
MODULES = (
    "rspo.core.checkout",
    "rspo.cli",
    "rspo.cli.options",
    "rspo.core.signals",
    "rspo.cli.run",
    "rspo.pipeline.provenance",
    "rspo.config.experiment",
    "rspo.config.schema",
    "rspo.status.display",
)


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_while_a_module_is_imported_is_one_line(module: str) -> None:
    program = PROGRAM.format(module=module, word="status")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("rspo: interrupted\n", 130)


def test_a_process_that_ignores_ctrl_c_goes_on() -> None:
    program = PROGRAM.format(module="rspo.core.checkout", word="--version")
    ignoring = program.replace("signal.default_int_handler", "signal.SIG_IGN")
    done = subprocess.run([sys.executable, "-c", ignoring], capture_output=True, text=True)
    assert done.stdout.startswith("rspo ")
    assert done.returncode == 0


def test_nothing_of_rspo_is_imported_before_ctrl_c_is_handled() -> None:
    program = "import sys; import rspo.__main__; print([name for name in sys.modules])"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True)
    assert "'rspo.__main__'" in done.stdout
    assert "'typing'" not in done.stdout
    assert "'rspo.core" not in done.stdout
