"""How tests/gpu/conftest.py runs tests that crash, hang or fail, and the table that it writes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.gpu import test_node as node
from tests.support import ROOT, rehearsal

MEGABYTES = 300
STEPS = [name for name in vars(node) if name.startswith("test_")]
FAKES = f"""
import ctypes, os, subprocess, time
from pathlib import Path
import pytest

def test_success(note):
    Path("during.md").write_text(Path("table.md").read_text())
    block = bytearray(b"x") * {MEGABYTES * 10**6}
    time.sleep(3)
    note("12 of 12")

def test_crash():
    ctypes.string_at(0)

@pytest.mark.timeout(5)
def test_hang():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)  # as Ray's processes
    Path("child").write_text(str(child.pid))
    time.sleep(600)

def test_exit():
    os._exit(3)

def test_failure():
    assert 3 > 12, "3 of 12 | are\\nwrong"

def test_other_device():
    pytest.skip("not on a CPU")

@pytest.mark.needs("test_other_device", "test_success")
def test_after_success():
    pass

@pytest.mark.needs("test_success", "test_crash")
def test_after_crash():
    pass

@pytest.mark.needs("test_after_crash")
def test_later():
    pass
"""


def run(root: Path, *words: str | Path) -> int:
    """Exit status of pytest in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "--table=table.md", *words]
    return subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode


def cells(file: Path) -> dict[str, list[str]]:
    """The cells of each row of a table, by step."""
    rows = [text for text in file.read_text().splitlines() if text.startswith("| ")][2:]
    parts = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {row[0]: row[1:] for row in parts}


def results(file: Path) -> dict[str, str]:
    return {step: row[-1] for step, row in cells(file).items()}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A folder with tests in place of those of tests/gpu."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "gpu").mkdir()
    shutil.copy(ROOT / "tests" / "gpu" / "conftest.py", tmp_path / "gpu")
    (tmp_path / "gpu" / "test_fakes.py").write_text(FAKES)
    return tmp_path


@pytest.mark.ci
def test_a_crash_or_a_hang_fails_one_test_and_skips_those_that_need_it(fakes: Path) -> None:
    old = fakes / "results" / "gpu-check" / "results" / "old"
    old.parent.mkdir(parents=True)
    old.touch()
    assert run(fakes, "gpu", "--device=cpu") == pytest.ExitCode.TESTS_FAILED

    log = "see results/gpu-check/logs/test_"
    assert results(fakes / "table.md") == {
        "success": "pass: 12 of 12",
        "crash": f"FAIL: ended by SIGSEGV; {log}crash.log",
        "hang": f"FAIL: Timeout (>5.0s) from pytest-timeout.; {log}hang.log",
        "exit": f"FAIL: exited with status 3; {log}exit.log",
        "failure": f"FAIL: 3 of 12 \\| are wrong; {log}failure.log",
        "other device": "skipped: not on a CPU",
        "after success": "pass",
        "after crash": "skipped: needs crash",
        "later": "skipped: needs after crash",
    }
    during = results(fakes / "during.md")
    assert (during.pop("success"), *set(during.values())) == ("running", "not run")
    gigabytes = float(cells(fakes / "table.md")["success"][1].removesuffix(" GB"))
    assert MEGABYTES / 1000 <= gigabytes < MEGABYTES / 1000 + 0.3
    assert "- device: cpu" in (fakes / "table.md").read_text()
    assert not psutil.pid_exists(int((fakes / "child").read_text()))
    assert not old.exists()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_test_passes_on_a_cpu(tmp_path: Path) -> None:
    """With SmolLM2-135M-Instruct from PyPI; ten minutes on two quiet cores."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    rehearsal.write_smollm(tmp_path / "mirror")
    words = ("--confcutdir", ROOT / "tests" / "gpu", "--device=cpu", "--mirror=mirror")
    assert run(tmp_path, ROOT / "tests" / "gpu", *words) == 0
    text = (tmp_path / "table.md").read_text()
    outcomes = {
        step: result.partition(":")[0] for step, result in results(tmp_path / "table.md").items()
    }
    assert outcomes.pop("flash attn") == "skipped"
    assert [*outcomes.values()] == ["pass"] * (len(STEPS) - 1)
    assert "random tiny judge, on a CPU" in text
