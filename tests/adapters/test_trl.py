"""Runs trl_contract.py in an environment of its own, because rspo does not install TRL."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.ci

# accelerate, which TRL imports, is installed with verl only.
PACKAGES = ("trl==1.16.0", "accelerate==1.15.0")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with TRL from the package index, and all else from this environment."""
    folder = tmp_path_factory.mktemp("trl")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "this_environment.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return python


def run(python: Path, *arguments: str) -> str:
    done = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def test_the_contract_with_trl(python: Path) -> None:
    contract = "tests/adapters/trl_contract.py"
    assert " passed" in run(
        python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", contract
    )


def test_groups_may_lie_on_two_ranks(python: Path, tmp_path: Path) -> None:
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run(python, *ranks, "tests/adapters/trl_ranks.py", str(tmp_path))


def numbers(text: str) -> list[float]:
    """Pass@1 and Pass@4 of both trainings."""
    return [float(number) for number in re.findall(r"Pass@[14] = ([0-9.]+)", text)]


def test_the_example_prints_what_its_first_lines_say(python: Path) -> None:
    example = ROOT / "examples" / "trl_bandit.py"
    printed = numbers(run(python, str(example)))
    assert len(printed) == 4
    # Samples, and so the last digit, depend on the machine's rounding.
    assert printed == pytest.approx(numbers(example.read_text()), abs=0.03)
    assert printed[3] > printed[1] + 0.2
