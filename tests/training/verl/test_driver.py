"""How the driver reports lost processes and errors."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from rspo.config.schema import VerlSettings
from rspo.core.errors import InputError, LostProcess
from rspo.core.files import write_text
from rspo.training.progress import PROGRESS_FILE
from rspo.training.verl import driver, run
from rspo.training.verl.driver import _Outcome, _Watchdog
from tests.support import ROOT

Watch = Callable[[list[Any]], str]
SETTINGS = VerlSettings(device="cpu", ranks=1)


class Exited(BaseException):
    """Replaces the exit of this process."""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Runs a watchdog on checks with the given results or errors; returns the recorded message."""

    def exit_(status: int) -> None:
        raise Exited(status)

    def run(results: list[Any]) -> str:
        remaining = iter(results)

        def check() -> Any:
            result = next(remaining)
            if isinstance(result, Exception):
                raise result
            return result

        with pytest.raises(Exited):
            _Watchdog(check, _Outcome(tmp_path / "end")).run()  # in this thread
        return json.loads((tmp_path / "end").read_text())["words"]

    monkeypatch.setattr(driver, "POLL_SECONDS", 0)
    monkeypatch.setattr("os._exit", exit_)
    return run


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Paths of Ray's sockets have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="rspo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_only_three_errors_in_a_row_count_as_a_lost_process(watch: Watch) -> None:
    slow, lost = TimeoutError("slow"), "process 7 (Server) has died"
    assert watch([slow, slow, None, slow, slow, None, lost]) == lost
    message = watch([None, *[RuntimeError("no\nanswer")] * 3])
    assert message == "Ray has not answered 3 times in a row: RuntimeError: no answer"


@pytest.mark.parametrize(
    ("raised", "waits"),
    [
        (RuntimeError("no response"), 1),
        (RayTaskError("run", "a traceback", RuntimeError("a peer is gone")), 1),
        (RayTaskError("run", "a traceback", InputError("no")), 0),
        (InputError("no"), 0),
    ],
)
def test_an_unexpected_error_gives_the_watchdog_time(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, waits: int
) -> None:
    """To find the lost process that caused it."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    def train(config: Any) -> None:
        raise raised

    monkeypatch.setattr(driver, "train", train)
    with pytest.raises(type(raised)):
        driver._run(None)
    assert slept == [driver.DETECTION_SECONDS] * waits


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "global_step_4/actor/model.pt")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (FULL, "OSError: [Errno 28] No space left on device: 'global_step_4/actor/model.pt'"),
        (
            RayTaskError(
                "run", "a", RayTaskError("save", "b", RuntimeError("trace\nwrite failed"))
            ),
            "RuntimeError: write failed",
        ),
        (AssertionError(), "AssertionError"),
    ],
)
def test_the_message_has_the_original_error(raised: Exception, message: str) -> None:
    reason = driver._reason(raised)
    assert isinstance(reason, LostProcess)
    assert str(reason) == f"verl's driver has failed, see above: {message}"


def test_on_a_full_disk_an_incomplete_checkpoint_is_removed_for_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, text: str) -> None:
        if incomplete.exists():
            raise FULL
        write_text(path, text)

    incomplete, complete = (tmp_path / f"global_step_{step}" for step in (4, 2))
    for folder in (incomplete, complete):
        folder.mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2")
    for module in ("driver", "checkpoints"):
        monkeypatch.setattr(f"rspo.training.verl.{module}.write_text", write)
    _Outcome(tmp_path / "end").record("LostProcess", "a write failed")
    message = json.loads((tmp_path / "end").read_text())["words"]
    assert message.startswith("a write failed ([Errno 28] No space left on device: ")
    assert complete.exists()
    assert not incomplete.exists()


_HANGS = """
import sys, time
from pathlib import Path
for duration in {durations}:
    time.sleep(duration)
    Path({progress!r}).write_text(str(duration))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("durations", "limits", "seconds"),
    [
        ([], {"hang_seconds": 1.0}, (2, 8)),  # the start may take twice as long
        ([0.2, 0.2], {"hang_seconds": 3.0}, (3, 8)),
    ],
)
def test_a_driver_without_steps_for_too_long_is_a_lost_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    durations: list[float],
    limits: dict[str, Any],
    seconds: tuple[float, float],
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    program = _HANGS.format(durations=durations, progress=str(checkpoint / PROGRESS_FILE))
    (tmp_path / "hangs.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path}")
    monkeypatch.setattr(run, "DRIVER", "hangs")
    with pytest.raises(
        LostProcess, match=r"no step for \d+ s: .*verl.hang_seconds; .* step 0$"
    ) as error:
        run._run(tmp_path, checkpoint, SETTINGS.model_copy(update=limits))
    (waited,) = re.findall(r"no step for (\d+) s", str(error.value))
    assert seconds[0] - 0.5 <= int(waited) <= seconds[1]


def test_the_time_of_a_suspended_job_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLURM suspends jobs with SIGSTOP, during which the clock goes on."""
    now = iter([0.0, 1.0, 100_000.0, 100_001.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    detector = run.HangDetector(tmp_path, SETTINGS.model_copy(update={"hang_seconds": 600.0}))
    assert [detector.overdue() for _ in range(3)] == [None] * 3


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
        _Outcome(checkpoint / "outcome.json").record("LostProcess", "no room")
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


_SEEN_BY_AN_ACTOR = """
import os
from pathlib import Path
from omegaconf import OmegaConf
from rspo.training.verl import ray_cluster

settings = {{"num_cpus": 1, "include_dashboard": False, "log_to_driver": False}}
config = OmegaConf.create({{"ray_kwargs": {{"ray_init": settings}}}})
ray_cluster.start(config, Path({folder!r}))

import ray  # not earlier: it reads the variables that `start` sets

@ray.remote
class Rank:
    def library_path(self):
        return os.environ["LD_LIBRARY_PATH"]

print("seen", ray.get(Rank.remote().library_path.remote()))
"""


@pytest.mark.ci
def test_ranks_and_samplers_have_the_libraries_that_a_precommand_chose(short_folder: Path) -> None:
    """Both are actors of Ray. With cuda-compat, LD_LIBRARY_PATH replaces the driver's library."""
    done = subprocess.run(
        [sys.executable, "-c", _SEEN_BY_AN_ACTOR.format(folder=str(short_folder))],
        env=os.environ | {"LD_LIBRARY_PATH": "/cuda-compat"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "seen /cuda-compat\n" in done.stdout
