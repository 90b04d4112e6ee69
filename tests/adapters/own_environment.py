"""Environments with a trainer that rspo does not install, and runs in them."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.support import ROOT


def make(folder: Path, packages: Sequence[str], at_start: str = "", clear: bool = False) -> Path:
    """A Python with packages from the package index, and all else from this environment.

    at_start: a line of Python that starts with import and runs before any script.
    clear: whether the folder may exist, and is then made again.
    """
    venv.create(folder, with_pip=True, clear=clear)
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    (site / "this_environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (site / "this_environment_start.pth").write_text(f"{at_start}\n")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", *packages]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return python


def run(python: Path, *arguments: str, seconds: float | None = None, **variables: str) -> str:
    """The output of a command that must succeed, with variables of the environment.

    Raises: subprocess.TimeoutExpired if it takes more than `seconds`.
    """
    done = subprocess.run(
        [python, *arguments],
        timeout=seconds,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def run_tests(python: Path, path: str, seconds: float | None = None, **variables: str) -> str:
    """The number of tests that passed, such as "65 passed"; all must pass, and none be skipped."""
    words = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", path)
    output = run(python, *words, seconds=seconds, **variables)
    assert "skipped" not in output
    passed = re.findall(r"\d+ passed", output)
    assert passed
    return str(passed[-1])
