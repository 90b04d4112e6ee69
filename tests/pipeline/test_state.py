"""One judge: what the state of a result is, and the words for each reason."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rspo.core.files import write_text
from rspo.pipeline.provenance import provenance_path
from rspo.pipeline.run import record
from rspo.pipeline.state import (
    CONDITIONS,
    SENTENCES,
    Condition,
    Reason,
    behind,
    content_state,
    is_good,
    recorded_staleness,
    refusals,
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
