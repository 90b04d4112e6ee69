"""One judge: what the state of a result is, and the words for each reason."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rspo.core.files import write_text
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.run import record
from rspo.pipeline.state import (
    CONDITIONS,
    ORIGIN_FILE,
    SENTENCES,
    Condition,
    Reason,
    State,
    added_files,
    behind,
    content_state,
    files_behind,
    has_outputs,
    has_settings_hash,
    is_begun,
    is_begun_with_settings,
    is_good,
    is_left,
    is_removed,
    origin_of,
    recorded_staleness,
    refusals,
    remedy,
    state,
    state_of,
)
from rspo.pipeline.task import Task

SOURCE = Path("source.txt")
RESULT = Path("result.txt")
OWN_FILE = Path("own.txt")


def source_task(**settings: int) -> Task:
    return Task((SOURCE,), settings or {"a": 1}, command="rspo source")


def result_task(source: Task | None = None, **settings: int) -> Task:
    maker = source or source_task()
    inputs = [(path, maker) for path in maker.outputs]
    return Task((RESULT,), settings or {"b": 1}, lambda: inputs, command="rspo result")


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that was made from a source; both are current."""
    monkeypatch.chdir(tmp_path)
    write_text(SOURCE, "source")
    record(source_task())
    write_text(RESULT, "result")
    record(result_task())


def test_every_reason_has_a_condition_and_a_sentence() -> None:
    assert set(CONDITIONS) == set(SENTENCES) == set(Reason)
    assert set(CONDITIONS.values()) == set(Condition)


def remove() -> None:
    RESULT.unlink()


def make_by_hand() -> None:
    provenance_path(RESULT).unlink()


def damage() -> None:
    RESULT.write_text("resul")


def change_a_byte() -> None:
    RESULT.write_text("RESULT")


def remake_source() -> None:
    SOURCE.write_text("another source")
    record(source_task())


@pytest.mark.parametrize(
    ("change", "shallow", "deep", "sentence"),
    [
        (lambda: None, Condition.CURRENT, Condition.CURRENT, "result.txt is up to date"),
        (remove, Condition.MISSING, Condition.MISSING, "result.txt: no such file"),
        (
            make_by_hand,
            Condition.FOREIGN,
            Condition.FOREIGN,
            "result.txt has no readable provenance, so its settings are unknown",
        ),
        (
            damage,
            Condition.DAMAGED,
            Condition.DAMAGED,
            "result.txt was damaged or changed after it was written",
        ),
        (
            change_a_byte,
            Condition.CURRENT,
            Condition.DAMAGED,
            "result.txt was damaged or changed after it was written",
        ),
        (
            remake_source,
            Condition.STALE,
            Condition.STALE,
            "result.txt was made from another version of source.txt",
        ),
    ],
)
def test_what_happened_to_a_result_decides_its_state(
    change: Callable[[], None], shallow: Condition, deep: Condition, sentence: str
) -> None:
    """Only `deep` reads the content, so only it notices a change that keeps the size."""
    change()
    assert state(result_task()).condition is shallow
    found = state(result_task(), deep=True)
    assert found.condition is deep
    assert str(found) == sentence


def test_other_settings_and_inputs_make_a_result_stale() -> None:
    assert str(state(result_task(b=2))) == "result.txt was made with other settings (b: 1 -> 2)"
    without = Task((RESULT,), {"b": 1})
    assert str(state(without)) == (
        "result.txt was made from source.txt, which is no longer an input of it"
    )
    another = source_task()
    pairs = [(SOURCE, another), (OWN_FILE, another)]
    more = Task((RESULT,), {"b": 1}, lambda: pairs)
    assert str(state(more)) == "result.txt was made without own.txt, which is an input of it"


def test_the_first_fault_comes_before_a_missing_output() -> None:
    task = Task((Path("missing.txt"), RESULT), {"b": 2})
    assert state(task).path == RESULT
    RESULT.unlink()
    assert state(task).condition is Condition.MISSING


def test_files_behind_are_judged_from_the_data_on_and_planned_ones_are_skipped() -> None:
    remake_source()
    last = Task((Path("last.txt"),), {}, lambda: [(RESULT, result_task())])
    assert [str(path) for path in behind(last.inputs())] == ["source.txt", "result.txt"]
    assert [sentence for _, sentence in refusals(behind(last.inputs()).values())] == [
        "result.txt was made from another version of source.txt; "
        "`rspo result --force` makes it again"
    ]
    assert behind(last.inputs(), planned=[RESULT]) == {}


def test_a_task_is_good_if_files_behind_it_were_removed_but_not_if_they_are_faulty() -> None:
    assert is_good(result_task())
    content = SOURCE.read_text()
    SOURCE.unlink()
    assert is_good(result_task())
    SOURCE.write_text(content[:-1])
    assert state(result_task()).is_current
    assert not is_good(result_task())


def test_a_refusal_names_the_command_that_mends_the_result() -> None:
    assert state_of(result_task(), Path("no.txt")).refusal == (
        "no.txt: no such file; `rspo result` makes it"
    )
    damage()
    assert state(result_task()).refusal.endswith("; `rspo result --force` makes it again")


def staleness(task: Task) -> str | None:
    found = recorded_staleness(RESULT, task.settings_hash, task.input_files)
    return None if found is None else found.reason.value


def test_by_its_records_a_result_is_stale_for_other_settings_or_another_input() -> None:
    assert staleness(result_task()) is None
    assert staleness(result_task(b=2)) == "other settings"
    remake_source()
    assert staleness(result_task()) == "other version"
    SOURCE.unlink()  # its provenance still tells which version it was
    assert staleness(result_task()) == "other version"


@pytest.mark.parametrize("change", [damage, make_by_hand, remove])
def test_by_its_records_a_damaged_foreign_or_removed_result_is_not_stale_for_its_inputs(
    change: Callable[[], None],
) -> None:
    """Snakemake would replace it, or make it although it was removed; its owner decides."""
    remake_source()
    assert staleness(result_task()) == "other version"
    change()
    assert staleness(result_task()) is None


def test_names_of_inputs_may_contain_parent_folders() -> None:
    remake_source()
    found = recorded_staleness(RESULT, result_task().settings_hash, [Path("a/../source.txt")])
    assert found is not None


def test_a_file_that_was_added_is_to_be_removed_unless_the_settings_differ_too() -> None:
    folder = Path("folder")
    folder.mkdir()
    write_text(folder / "weights", "1")
    task = Task((folder,), {"a": 1}, command="rspo folder")
    record(task)
    write_text(folder / "notes.txt", "mine")
    assert content_state(folder, task=task).refusal.endswith("; remove notes.txt")
    other = Task((folder,), {"a": 2}, command="rspo folder")
    assert content_state(folder, task=other).refusal.endswith(
        "; `rspo folder --force` makes it again"
    )


def test_the_records_of_an_earlier_version_of_this_package_do_not_count() -> None:
    note = json.loads(provenance_path(RESULT).read_text())
    del note["settings_hash"]
    write_text(provenance_path(RESULT), json.dumps(note))
    assert staleness(result_task(b=2)) is None


def test_states_name_the_task_that_writes_the_result() -> None:
    task = result_task()
    for change in (lambda: None, damage, make_by_hand, remove):
        change()
        assert state(task).task == task
        assert state(task, deep=True).task == task
    remake_source()
    for other in (task, result_task(b=2), Task((RESULT,), {"b": 1})):
        assert state(other).task == other
    assert content_state(RESULT).task is None


def test_a_result_by_its_own_provenance_is_judged_without_its_task() -> None:
    assert content_state(RESULT) == State(RESULT, Reason.UNCHANGED)
    change_a_byte()
    assert content_state(RESULT) == State(RESULT, Reason.UNCHANGED)
    assert content_state(RESULT, deep=True) == State(RESULT, Reason.OTHER_CONTENT)
    damage()
    assert content_state(RESULT) == State(RESULT, Reason.OTHER_CONTENT)
    make_by_hand()
    assert content_state(RESULT) == State(RESULT, Reason.NO_PROVENANCE)
    remove()
    assert content_state(RESULT) == State(RESULT, Reason.REMOVED)
    assert str(content_state(RESULT)) == "result.txt is missing"


@pytest.fixture
def folder() -> Path:
    """A folder with provenance, which is a result."""
    folder = Path("folder")
    folder.mkdir()
    (folder / "weights").write_text("12")
    (folder / "config").write_text("3")
    record(FOLDER_TASK)
    return folder


FOLDER_TASK = Task((Path("folder"),), {"a": 1}, command="rspo folder")


def test_the_files_of_a_damaged_folder_are_named(folder: Path) -> None:
    assert state(FOLDER_TASK).is_current
    (folder / ".hidden").touch()
    assert state(FOLDER_TASK).is_current
    (folder / "weights").write_text("21")
    assert state(FOLDER_TASK).is_current
    assert state(FOLDER_TASK, deep=True).reason is Reason.OTHER_CONTENT
    (folder / "weights").write_text("1")
    assert state(FOLDER_TASK) == State(folder, Reason.OTHER_FILES, "weights: 2 -> 1", FOLDER_TASK)
    assert str(state(FOLDER_TASK)) == (
        "folder was damaged or changed after it was written (bytes of weights: 2 -> 1)"
    )


def test_a_folder_of_an_earlier_version_of_this_package_has_its_total_only(folder: Path) -> None:
    note = json.loads(provenance_path(folder).read_text())
    del note["files"]
    write_text(provenance_path(folder), json.dumps(note))
    assert state(FOLDER_TASK).is_current
    (folder / "more").write_text("1")
    assert state(FOLDER_TASK).reason is Reason.OTHER_CONTENT
    assert added_files(folder) == []


def test_added_files_are_named_unless_another_file_changed(folder: Path) -> None:
    assert added_files(folder) == []
    (folder / "z").write_text("1")
    (folder / "a").write_text("1")
    assert added_files(folder) == ["a", "z"]
    (folder / "config").unlink()
    assert added_files(folder) == []
    assert added_files(RESULT) == []


CHECKPOINT = Path("checkpoint")


def training_task(**settings: int) -> Task:
    outputs = (Path("policy.txt"), Path("log.txt"))
    return Task(outputs, settings or {"a": 1}, command="rspo train", checkpoint=CHECKPOINT)


def begin(task: Task, seconds_ago: float = 0) -> None:
    """Leave the checkpoint of a process that worked on a task and was killed."""
    write_text(CHECKPOINT / ORIGIN_FILE, json.dumps({"settings": task.settings, "inputs": {}}))
    when = os.stat(CHECKPOINT / ORIGIN_FILE).st_mtime - seconds_ago
    os.utime(CHECKPOINT / ORIGIN_FILE, (when, when))


def finish(task: Task) -> None:
    for path in task.outputs:
        path.write_text("made")
    record(task)


def test_work_is_begun_if_it_left_a_checkpoint_and_no_newer_results() -> None:
    task = training_task()
    assert not is_begun(task)
    assert origin_of(CHECKPOINT) == {}
    CHECKPOINT.mkdir()  # a killed removal left it
    assert not is_begun(task)
    begin(task)
    assert is_begun(task)
    assert is_begun_with_settings(task)
    assert not is_left(task)
    assert origin_of(CHECKPOINT) == {"settings": {"a": 1}, "inputs": {}}
    assert is_begun(training_task(a=2))
    assert not is_begun_with_settings(training_task(a=2))
    assert not is_begun(source_task())
    assert not is_begun_with_settings(source_task())


def test_a_checkpoint_older_than_the_provenance_of_all_outputs_is_left_over() -> None:
    task = training_task()
    begin(task, seconds_ago=60)
    finish(task)
    assert has_outputs(task)
    assert is_left(task)
    assert not is_begun(task)
    begin(task, seconds_ago=-60)
    assert not is_left(task)
    assert is_begun(task)
    begin(task, seconds_ago=60)
    provenance_path(task.outputs[1]).unlink()
    assert not has_outputs(task)
    assert is_begun(task)
    finish(task)
    task.outputs[0].unlink()
    assert not has_outputs(task)
    assert not is_left(source_task())


def test_damage_to_a_checkpoint_is_no_begun_work() -> None:
    task = training_task()
    begin(task)
    (CHECKPOINT / ORIGIN_FILE).write_text("{")
    assert origin_of(CHECKPOINT) == {}
    assert is_begun(task)
    assert not is_begun_with_settings(task)


def test_begun_work_is_resumed_and_other_work_made_again() -> None:
    task = training_task()
    assert remedy(task) == "`rspo train --force` makes it again"
    finish(training_task(a=2))
    begin(task, seconds_ago=-60)
    assert remedy(task) == "`rspo train` resumes it"
    assert state(task).refusal == (
        "policy.txt was made with other settings (a: 2 -> 1); `rspo train` resumes it"
    )
    broken = State(CHECKPOINT, Reason.NOT_COMPLETE, task=task)
    assert broken.refusal == "checkpoint is damaged; `rspo train --force` starts from step 1"


def test_only_a_result_whose_provenance_is_there_was_removed() -> None:
    assert not is_removed(RESULT)
    RESULT.unlink()
    assert is_removed(RESULT)
    provenance_path(RESULT).unlink()
    assert not is_removed(RESULT)
    assert has_settings_hash(SOURCE)
    assert not has_settings_hash(RESULT)


def test_staleness_tells_what_it_is_for() -> None:
    task = result_task()
    recorded = read_provenance(RESULT)["settings_hash"]
    other = recorded_staleness(RESULT, "0" * 12, task.input_files)
    assert other == State(RESULT, Reason.OTHER_SETTINGS, recorded)
    remake_source()
    other = recorded_staleness(RESULT, recorded, task.input_files)
    assert other == State(RESULT, Reason.OTHER_VERSION, "source.txt")
    assert recorded_staleness(RESULT, recorded, [OWN_FILE]) is None
    assert recorded_staleness(OWN_FILE, recorded, []) is None


def test_by_its_records_a_result_of_other_files_is_stale() -> None:
    """As a figure of another folder of results that was copied here."""
    task = result_task()
    recorded = read_provenance(RESULT)["settings_hash"]
    write_text(Path("other.txt"), "source")
    other = Task((Path("other.txt"),), {"a": 1})
    record(other)
    moved = Task((RESULT,), {"b": 1}, lambda: [(Path("other.txt"), other)])
    found = recorded_staleness(RESULT, recorded, moved.input_files, moved)
    assert found == State(RESULT, Reason.NEW_INPUT, "other.txt", moved)
    # A job may have inputs that its task does not read.
    assert recorded_staleness(RESULT, recorded, [SOURCE, Path("other.txt")], task) is None


def test_each_file_behind_comes_once_after_what_it_is_made_from() -> None:
    source = source_task()
    first = result_task(source)
    second = Task((Path("second.txt"),), {}, lambda: [(SOURCE, source), (RESULT, first)])
    pairs = [(RESULT, first), (second.outputs[0], second), (SOURCE, source)]
    files = files_behind(pairs)
    assert list(files) == [SOURCE, RESULT, second.outputs[0]]
    assert list(files.values()) == [source, first, second]
    assert list(files_behind(pairs, planned=[RESULT])) == [SOURCE, second.outputs[0]]


def test_a_task_is_refused_once_for_several_of_its_results() -> None:
    task = Task((SOURCE, RESULT), {"c": 1}, command="rspo both")
    states = [state_of(task, SOURCE), state_of(task, RESULT), State(OWN_FILE, Reason.NO_PROVENANCE)]
    sentences = list(refusals(states))
    assert sentences == [(task, states[0].refusal)]
    assert list(refusals([state(result_task())])) == []
