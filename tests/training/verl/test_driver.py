"""How the driver reports lost processes and errors."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rspo.config.schema import VerlSettings
from rspo.core.errors import LostProcess
from rspo.training.progress import PROGRESS_FILE
from rspo.training.verl import run
from rspo.training.verl.driver import record
from tests.support import ROOT

SETTINGS = VerlSettings(device="cpu", ranks=1)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Paths of Ray's sockets have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="rspo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


_HANGS = """
import sys, time
from pathlib import Path
for duration in {durations}:
    time.sleep(duration)
    Path({progress!r}).write_text(str(duration))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("durations", "limit", "seconds"),
    [
        ([], 1.0, (2, 8)),  # the start may take twice as long
        ([0.2, 0.2], 3.0, (3, 8)),
    ],
)
def test_a_driver_without_steps_for_too_long_is_a_lost_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    durations: list[float],
    limit: float,
    seconds: tuple[float, float],
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    program = _HANGS.format(durations=durations, progress=str(checkpoint / PROGRESS_FILE))
    (tmp_path / "hangs.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path}")
    monkeypatch.setattr(run, "DRIVER", "hangs")
    with pytest.raises(LostProcess, match=r"no step for \d+ s .* resumes from step 0") as error:
        run._run(tmp_path, checkpoint, SETTINGS.model_copy(update={"hang_seconds": limit}))
    (waited,) = re.findall(r"no step for (\d+) s", str(error.value))
    assert seconds[0] - 0.5 <= int(waited) <= seconds[1]


def test_a_failed_training_leaves_no_incomplete_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 7B it would take up to 122 GB of a full disk."""
    checkpoint = tmp_path / "checkpoint"
    for step in (2, 4):
        (checkpoint / f"global_step_{step}").mkdir(parents=True)
    (checkpoint / "latest_checkpointed_iteration.txt").write_text("2")

    @contextmanager
    def fails(*_: object) -> Iterator[subprocess.Popen[bytes]]:
        record(checkpoint / "outcome.json", "LostProcess", "no room")
        yield subprocess.Popen(["false"])

    monkeypatch.setattr(run, "supervised", fails)
    with pytest.raises(LostProcess, match="no room; the same command resumes from step 2"):
        run._run(tmp_path, checkpoint, SETTINGS)
    assert [path.name for path in checkpoint.glob("global_step_*")] == ["global_step_2"]


_KILLED_BY_RAY = """
import ray, time
from rspo.training.verl.ray_cluster import lost_actor

@ray.remote
class Worker:
    def work(self):
        time.sleep(60)

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _temp_dir={folder!r})
worker = Worker.remote()
work = worker.work.remote()
for _ in range(200):
    if lost := lost_actor():
        break
    time.sleep(0.1)
print(lost)
"""


def test_a_process_that_ray_kills_for_memory_is_lost(short_folder: Path) -> None:
    """Otherwise verl would wait for it forever. Any use of memory is too much here."""
    limits = {"RAY_memory_usage_threshold": "0.0", "RAY_memory_monitor_refresh_ms": "100"}
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_BY_RAY.format(folder=str(short_folder))],
        env=os.environ | limits,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    line = r"process \d+ \(Worker\) was killed by Ray: this node's memory was nearly full\n"
    assert re.fullmatch(line, done.stdout)
