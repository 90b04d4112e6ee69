"""What the driver of a training makes of those that it depends on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from rspo.errors import InputError
from rspo.training.verl import driver
from rspo.training.verl.driver import _End, _run, _Watch

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
