"""What `rspo gpu-check` does with steps that crash, hang or fail, and what its table says."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rspo import cli
from rspo.core.errors import InputError
from rspo.core.locks import exclusive_lock
from rspo.gpu_check import run, steps
from rspo.gpu_check.settings import Settings
from rspo.gpu_check.steps import STEPS, Step
from rspo.gpu_check.table import Memory, Outcome, Row, line, page
from tests.support import ROOT, fake_checks
from tests.support.processes import wait_until

INTERRUPTED = """
import sys
from pathlib import Path
from rspo.gpu_check import run
from rspo.gpu_check.settings import Settings
from tests.gpu_check.test_run import step
steps = [step("first", "passes"), step("second", "hangs", seconds=500), step("third", "passes")]
run.run(steps, Settings("cpu", "", sys.argv[1]), Path(sys.argv[2]))
"""


def step(name: str, check: str, *needs: str, seconds: float = 60) -> Step:
    return Step(name, f"tests.support.fake_checks:{check}", seconds, needs)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the processes, for the fake checks
    return Settings("cpu", "", str(tmp_path / "folder"))


def is_running(child: Path) -> bool:
    """Whether the process runs whose number is in a file."""
    try:
        return psutil.Process(int(child.read_text())).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def results(file: Path) -> dict[str, str]:
    """The column `result` of a table, by step."""
    rows = [text for text in file.read_text().splitlines() if text.startswith("| ")][2:]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {row[0]: row[-1] for row in cells}


def test_a_crash_or_a_hang_fails_one_step_and_stops_those_that_need_it(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "table.md"
    chosen = [
        step("crash", "crashes"),
        step("hang", "hangs", seconds=5),
        step("exit", "exits"),
        step("exit with 255", "exits_with_255"),
        step("exception", "raises"),
        step("failure", "fails"),
        step("elsewhere", "is_not_here"),
        step("success", "passes", "elsewhere"),
        step("needs the crash", "passes", "success", "crash"),
        step("needs what was not run", "passes", "needs the crash"),
    ]
    assert not run.run(chosen, settings, file, show=lambda _: None)
    logs = Path(settings.folder) / "logs"
    assert results(file) == {
        "crash": f"FAIL: ended by SIGSEGV: about to read address 0; see {logs}/crash.log",
        "hang": f"FAIL: not finished after 5 s; see {logs}/hang.log",
        "exit": f"FAIL: exited with status 3: error: no memory; see {logs}/exit.log",
        "exit with 255": f"FAIL: exited with status 255: no output; see {logs}/exit-with-255.log",
        "exception": f"FAIL: ZeroDivisionError: division by zero; see {logs}/exception.log",
        "failure": f"FAIL: 3 of 12 \\| are wrong; see {logs}/failure.log",
        "elsewhere": "not here: not on a CPU",
        "success": "pass: 12 of 12",
        "needs the crash": "not run: needs crash",
        "needs what was not run": "not run: needs needs the crash",
    }
    assert not is_running(Path(settings.folder) / fake_checks.CHILD)


def test_the_table_is_written_before_and_after_each_step(
    settings: Settings, tmp_path: Path
) -> None:
    file, shown = tmp_path / "table.md", []
    chosen = [step("first", "passes"), step("second", "copies_table"), step("third", "passes")]
    assert run.run(chosen, replace(settings, mirror=str(file)), file, show=shown.append)
    during = results(Path(settings.folder) / "table-while-running")
    assert during == {"first": "pass: 12 of 12", "second": "running", "third": "waiting"}
    assert results(file) == {"first": "pass: 12 of 12", "second": "pass", "third": "pass: 12 of 12"}
    assert [text.split()[1] for text in shown] == [
        "step",
        "---------------------------"[: len(shown[1].split()[1])],
        "first",
        "second",
        "third",
        str(file),
    ]


def test_ctrl_c_ends_the_processes_and_is_in_the_table(settings: Settings, tmp_path: Path) -> None:
    file, child = tmp_path / "table.md", Path(settings.folder) / fake_checks.CHILD
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, settings.folder, str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: child.exists() and child.read_text() != "")
    assert is_running(child)
    process.send_signal(signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    assert not is_running(child)
    assert results(file) == {
        "first": "pass: 12 of 12",
        "second": "not run: interrupted",
        "third": "not run: interrupted",
    }


@pytest.mark.parametrize(("check", "status"), [("passes", 0), ("fails", 1), ("is_not_here", 0)])
def test_the_exit_status_says_whether_a_step_failed(
    check: str, status: int, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "STEPS", [step("only", check)])
    assert cli.main(["gpu-check", "--device", "cpu"]) == status
    assert list(results(Path("reports/gpu-check.md"))) == ["only"]


def test_the_memory_of_a_step_is_measured(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    run.run([step("only", "needs_memory")], settings, file, show=lambda _: None)
    (row,) = (text for text in file.read_text().splitlines() if text.startswith("| only"))
    gigabytes = float(row.split("|")[3].split()[0])
    assert fake_checks.MEGABYTES / 1000 <= gigabytes < fake_checks.MEGABYTES / 1000 + 0.3


def test_earlier_results_are_removed_unless_another_process_uses_them(
    settings: Settings, tmp_path: Path
) -> None:
    folder, file = Path(settings.folder), tmp_path / "table.md"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "old").touch()
    with exclusive_lock(folder), pytest.raises(InputError, match=f"process {os.getpid()} on "):
        run.run([], settings, file)
    assert (folder / "results" / "old").exists()
    assert run.run([], settings, file, show=lambda _: None)
    assert not (folder / "results").exists()


def test_each_step_needs_earlier_ones() -> None:
    for number, one in enumerate(STEPS):
        assert set(one.needs) <= {earlier.name for earlier in STEPS[:number]}


def test_a_row_has_seconds_memory_and_its_result() -> None:
    row = Row("sampling", Outcome.PASSED, 61.4, Memory(2_340_000_000, 11_960_000_000), "9 tokens/s")
    cells = [cell.strip() for cell in line(row, [row]).strip("|").split("|")]
    assert cells == ["sampling", "61", "2.3 GB, GPU 12.0 GB", "pass: 9 tokens/s"]
    text = page({"device": "cuda"}, [row, Row("training")])
    lines = text.splitlines()
    assert "- device: cuda" in lines
    assert len({len(text[: text.rindex("|", 0, -1)]) for text in lines if text[:2] == "| "}) == 1
