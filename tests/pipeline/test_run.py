"""How a task is run: what is checked before its work, and what is recorded after it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rspo.core.errors import InputError
from rspo.core.files import digest, write_text
from rspo.core.locks import is_locked
from rspo.pipeline import run as module
from rspo.pipeline.provenance import (
    WRITTEN,
    changed_code,
    provenance_path,
    read_provenance,
)
from rspo.pipeline.run import (
    FORCE_HINT,
    digests_of,
    locked,
    record,
    require_configured,
    require_current,
    require_replaceable,
    run,
)
from rspo.pipeline.state import ORIGIN_FILE
from rspo.pipeline.task import Done, Task
from rspo.pipeline.usage import Usage

SOURCE = Path("source.txt")
RESULT = Path("result.txt")
SECOND = Path("second.txt")
SOURCE_TASK = Task((SOURCE,), {"a": 1}, command="rspo source")
TASK = Task((RESULT, SECOND), {"b": 1}, lambda: [(SOURCE, SOURCE_TASK)], command="rspo result")


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished source, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_text(SOURCE, "source")
    record(SOURCE_TASK)


class Work:
    """The work of a task, which counts its calls."""

    def __init__(self, text: str = "result") -> None:
        self.text = text
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        for path in (RESULT, SECOND):
            path.write_text(self.text)


def refusal(task: Task, force: bool = False) -> str:
    """The error of a run, which does no work."""
    work = Work()
    with pytest.raises(InputError) as error:
        run(task, work, force)
    assert work.calls == 0
    return str(error.value)


def test_finished_work_is_done_once_and_with_force_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = Work()
    run(TASK, work)
    assert capsys.readouterr().out == ""
    run(TASK, work)
    assert capsys.readouterr().out == "result.txt is up to date\n"
    assert work.calls == 1
    run(TASK, work, force=True)
    assert work.calls == 2


def test_the_provenance_of_every_output_has_the_settings_and_the_inputs() -> None:
    before = len(WRITTEN)
    run(TASK, Work())
    assert WRITTEN[before:] == [RESULT, SECOND]
    for path in (RESULT, SECOND):
        note = read_provenance(path)
        assert note["settings"] == {"b": 1}
        assert note["settings_hash"] == TASK.settings_hash
        assert note["inputs"] == {"source.txt": digest(SOURCE)}
        assert note["originals"] == []
        assert (note["file"], note["digest"]) == (str(path), digest(path))


def test_the_users_code_is_recorded_as_it_was_when_the_work_began() -> None:
    code = Path("mine.py")
    code.write_text("a = 1")
    before = digest(code)

    def work() -> None:
        Work()()
        code.write_text("a = 2")

    run(replace(TASK, own_code=(code,)), work)
    assert read_provenance(RESULT)["own_code"] == {"mine.py": before}
    assert changed_code(RESULT) == ["mine.py"]
    code.write_text("a = 1")
    assert changed_code(RESULT) == []
    code.unlink()
    assert changed_code(RESULT) == []


def test_what_the_work_reports_is_recorded_before_it_cleans_up() -> None:
    own = Path("own.txt")
    own.write_text("mine")
    cleaned = []

    def work() -> Done:
        Work()()
        Path("more.txt").write_text("more")
        return Done(
            gpu_seconds=2.5,
            notes={"rows": 3},
            earlier=[Usage("7", "node1", 1, 10.0, 20.0, 30.0)],
            files=[Path("more.txt")],
            originals={own: "then", SOURCE: digest(SOURCE)},
            clean_up=lambda: cleaned.append(provenance_path(Path("more.txt")).is_file()),
        )

    run(TASK, work)
    assert cleaned == [True]
    for path in (RESULT, SECOND, Path("more.txt")):
        note = read_provenance(path)
        assert note["notes"] == {"rows": 3}
        assert note["inputs"] == {"source.txt": digest(SOURCE), "own.txt": "then"}
        assert note["originals"] == ["own.txt"]  # the source has provenance itself
        first, last = note["processes"]
        assert first == {
            "job": "7",
            "host": "node1",
            "process": 1,
            "wall_seconds": 10.0,
            "cpu_seconds": 20.0,
            "gpu_seconds": 30.0,
        }
        assert last["gpu_seconds"] == 2.5
        assert note["gpu_seconds"] == 32.5
        assert note["wall_seconds"] == pytest.approx(10 + last["wall_seconds"])
        assert note["cpu_seconds"] == pytest.approx(20 + last["cpu_seconds"])


def test_settings_that_only_the_command_line_has_need_force() -> None:
    task = Task(TASK.outputs, {"b": 2}, TASK.inputs, configured={"b": 1})
    message = (
        "result.txt would have other settings than the config (b: 1 -> 2): "
        "--results DIR writes to another folder, --force writes here"
    )
    assert refusal(task) == message
    with pytest.raises(InputError) as error:
        require_configured(task)
    assert str(error.value) == message
    require_configured(TASK)
    require_configured(Task(TASK.outputs, {"b": 1}, configured={"b": 1}))
    run(task, Work(), force=True)
    assert read_provenance(RESULT)["settings"] == {"b": 2}


@pytest.mark.parametrize("force", [False, True])
def test_a_missing_or_changed_input_is_refused(force: bool) -> None:
    write_text(SOURCE, "SOURCE")
    assert refusal(TASK, force) == (
        "source.txt was damaged or changed after it was written; "
        "`rspo source --force` makes it again"
    )
    SOURCE.unlink()
    assert refusal(TASK, force) == "source.txt: no such file; `rspo source` makes it"
    with pytest.raises(InputError, match=r"^source\.txt: no such file"):
        require_current(SOURCE_TASK, SOURCE)


def test_an_input_is_refused_for_what_it_was_made_from() -> None:
    run(TASK, Work())
    last = Task((Path("last.txt"),), {}, lambda: [(RESULT, TASK)], command="rspo last")
    SOURCE.write_text("longer than before")
    assert refusal(last, force=True) == (
        "source.txt was damaged or changed after it was written; "
        "`rspo source --force` makes it again"
    )
    SOURCE.unlink()  # a result may outlive what it was made from
    run(last, lambda: write_text(Path("last.txt"), "last"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda: RESULT.write_text("RESULT"), "was damaged or changed after it was written"),
        (
            lambda: provenance_path(RESULT).unlink(),
            "has no readable provenance, so its settings are unknown",
        ),
    ],
)
def test_a_result_that_is_not_the_tasks_own_is_replaced_only_with_force(
    spoil: Callable[[], object], message: str
) -> None:
    run(TASK, Work())
    SECOND.unlink()  # so that there is work to do
    spoil()
    assert refusal(TASK) == f"result.txt {message}: {FORCE_HINT}"
    run(TASK, Work("again"), force=True)
    assert RESULT.read_text() == "again"


def test_a_result_of_other_settings_is_replaced_only_with_force() -> None:
    run(TASK, Work())
    other = Task(TASK.outputs, {"b": 2}, TASK.inputs, command="rspo result")
    assert refusal(other) == f"result.txt was made with other settings (b: 1 -> 2): {FORCE_HINT}"
    with pytest.raises(InputError) as error:
        require_replaceable(other)
    assert str(error.value) == (
        "result.txt exists and was not made by this command with these settings: name another "
        "file with --output, or replace it with --force"
    )
    RESULT.unlink()
    with pytest.raises(InputError, match=r"^second\.txt exists"):
        require_replaceable(other)
    require_replaceable(TASK)


def test_only_one_process_works_on_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(TASK.outputs, TASK.settings, TASK.inputs, lock=Path("locks/my.lock"))

    def work() -> None:
        assert is_locked(Path("locks/my.lock"))
        Work()()

    run(task, work)
    assert not is_locked(Path("locks/my.lock"))
    with locked(TASK):  # has no lock
        pass


def test_what_another_process_made_while_this_one_waited_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task(TASK.outputs, TASK.settings, TASK.inputs, lock=Path("locks/my.lock"))

    @contextmanager
    def wait(*_: object) -> Iterator[None]:
        Work("of the other process")()
        record(task)
        yield

    monkeypatch.setattr(module, "exclusive_lock", wait)
    work = Work()
    run(task, work)
    assert work.calls == 0
    assert RESULT.read_text() == "of the other process"
    run(task, work, force=True)
    assert work.calls == 1


def test_work_that_was_begun_with_the_settings_is_continued_over_older_results() -> None:
    run(TASK, Work("old"))
    checkpoint = Path("checkpoint")
    settings = {"b": 2}
    task = Task(TASK.outputs, settings, TASK.inputs, checkpoint=checkpoint, configured={"b": 3})
    write_text(checkpoint / ORIGIN_FILE, json.dumps({"settings": settings}))
    run(task, Work("new"))
    assert RESULT.read_text() == "new"
    write_text(checkpoint / ORIGIN_FILE, json.dumps({"settings": {"b": 1}}))
    assert "would have other settings than the config" in refusal(task)


def test_the_digests_are_of_the_files_and_folders_that_exist() -> None:
    Path("folder").mkdir()
    paths = [SOURCE, Path("folder"), Path("no.txt")]
    assert digests_of(paths) == {path: digest(path) for path in paths[:2]}
