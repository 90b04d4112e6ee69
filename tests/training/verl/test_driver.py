"""What the driver of a training makes of those that it depends on."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from rspo.core.errors import InputError, LostProcess
from rspo.core.files import write_text
from rspo.training.verl import driver, run
from rspo.training.verl.driver import _End, _in_words, _run, _Watch

Watch = Callable[[list[Any]], str]


class Exited(BaseException):
    """Instead of the end of this process."""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watches by looks with the given answers, errors among them; the last word."""

    def exit_(status: int) -> None:
        raise Exited(status)

    def run(answers: list[Any]) -> str:
        left = iter(answers)

        def look() -> Any:
            answer = next(left)
            if isinstance(answer, Exception):
                raise answer
            return answer

        with pytest.raises(Exited):
            _Watch(look, _End(tmp_path / "end")).run()  # in this thread
        return json.loads((tmp_path / "end").read_text())["words"]

    monkeypatch.setattr(driver, "SECONDS_BETWEEN_LOOKS", 0)
    monkeypatch.setattr("os._exit", exit_)
    return run


def test_a_watch_outlives_looks_that_fail_now_and_then(watch: Watch) -> None:
    slow, lost = TimeoutError("slow"), "the node gpu2 has left Ray"
    assert watch([slow, slow, None, slow, slow, None, lost]) == lost


def test_who_cannot_be_asked_three_times_in_a_row_is_lost(watch: Watch) -> None:
    words = watch([None, *[RuntimeError("no\nanswer")] * 3])
    assert words == "Ray has not answered 3 times in a row: RuntimeError: no answer"


@pytest.mark.parametrize(
    ("raised", "waits"),
    [
        (RuntimeError("no response"), 1),
        (RayTaskError("run", "a traceback", RuntimeError("a peer is gone")), 1),
        (RayTaskError("run", "a traceback", InputError("no")), 0),
        (InputError("no"), 0),
    ],
)
def test_what_fails_leaves_the_watch_time_to_hear_who_died(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, waits: int
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    class Task:
        def run(self, config: Any) -> None:
            raise raised

    with pytest.raises(type(raised)):
        _run(Task(), None)
    assert slept == [driver.SECONDS_UNTIL_RAY_KNOWS] * waits


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "global_step_4/actor/model.pt")


@pytest.mark.parametrize(
    ("raised", "words"),
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
def test_the_last_words_name_what_was_raised_first(raised: Exception, words: str) -> None:
    assert _in_words(raised) == words


def test_on_a_full_disk_half_a_checkpoint_makes_room_for_the_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, text: str) -> None:
        if half.exists():
            raise FULL
        write_text(path, text)

    half, whole = (tmp_path / f"global_step_{step}" for step in (4, 2))
    for folder in (half, whole):
        folder.mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2")
    for module in ("driver", "checkpoints"):
        monkeypatch.setattr(f"rspo.training.verl.{module}.write_text", write)
    _End(tmp_path / "end").note("LostProcess", "a write failed")
    words = json.loads((tmp_path / "end").read_text())["words"]
    assert words.startswith("a write failed ([Errno 28] No space left on device: ")
    assert whole.exists()
    assert not half.exists()


def test_a_training_that_has_failed_leaves_no_half_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk 122 GB of it, at 7B, would be in the way of everybody's next file."""
    checkpoint = tmp_path / "checkpoint"
    for step in (2, 4):
        (checkpoint / f"global_step_{step}").mkdir(parents=True)
    (checkpoint / "latest_checkpointed_iteration.txt").write_text("2")

    @contextmanager
    def fails(*_: object) -> Iterator[subprocess.Popen[bytes]]:
        _End(checkpoint / "outcome.json").note("LostProcess", "no room")
        yield subprocess.Popen(["false"])

    monkeypatch.setattr(run, "supervised", fails)
    with pytest.raises(LostProcess, match="no room; the same command resumes from step 2"):
        run._run(tmp_path, checkpoint)
    assert [path.name for path in checkpoint.glob("global_step_*")] == ["global_step_2"]
