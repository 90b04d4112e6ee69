"""The lines of a history, and the sentences about its gaps, for a few small files."""

import json
from pathlib import Path

import pytest

from rspo.core.errors import InputError
from rspo.core.files import digest, write_text
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.run import record
from rspo.pipeline.task import Done, Task
from rspo.pipeline.trace import content_of, faults, history, originals, sources, trace

OWN = Path("own.csv")
DATA = Path("data.txt")
POLICY = Path("policy.txt")
RESULT = Path("result.txt")

DATA_TASK = Task((DATA,), {"rows": 3})
POLICY_TASK = Task((POLICY,), {"steps": 1}, lambda: [(DATA, DATA_TASK)])
RESULT_TASK = Task((RESULT,), {"k": 4}, lambda: [(DATA, DATA_TASK), (POLICY, POLICY_TASK)])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of a policy and of data, which was made from a file of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/bin/rspo", "make", "it", "now"])
    monkeypatch.setattr("rspo.pipeline.provenance._git_commit", lambda: f"{'c' * 40}+changes")
    write_text(OWN, "mine")
    make_data()
    write_text(POLICY, "weights")
    record(POLICY_TASK)
    write_text(RESULT, "0.5")
    record(RESULT_TASK)


def make_data(content: str = "rows") -> None:
    write_text(DATA, content)
    notes = {"sources": ["hub/data @ 1", "hub/more @ 2"], "content_sha256": "e" * 64}
    record(DATA_TASK, Done(notes=notes, originals={OWN: digest(OWN)}))


def origin(path: Path) -> str:
    note = read_provenance(path)
    return (
        f"rspo make, settings {note['settings_hash']}, commit {'c' * 12}+changes, "
        f"{note['written']} on {note['host']}"
    )


def broken(path: Path = RESULT) -> list[str]:
    """The sentences about a broken history."""
    with pytest.raises(InputError) as error:
        list(trace(path))
    first, *sentences = str(error.value).splitlines()
    assert first == "the history is broken:"
    return [sentence.removeprefix("  ") for sentence in sentences]


def test_a_history_shows_each_file_with_its_inputs_indented() -> None:
    content = f"content {'e' * 64}"
    assert list(trace(RESULT)) == [
        f"result.txt: {origin(RESULT)}",
        f"    data.txt: {origin(DATA)}",
        f"        source: hub/data @ 1, {content}",
        f"        source: hub/more @ 2, {content}",
        "        own.csv: your own file",
        f"    policy.txt: {origin(POLICY)}",
        "        data.txt (see above)",
        "",
        "data: hub/data @ 1 in data.txt",
        "data: hub/more @ 2 in data.txt",
        f"data: own.csv, content {digest(OWN)}",
    ]


def test_a_depth_hides_the_inputs_of_deeper_files() -> None:
    """A file that is not expanded where it comes first is expanded where there is room for it."""
    lines = list(trace(RESULT, depth=1))
    assert lines[:5] == [
        f"result.txt: {origin(RESULT)}",
        f"    data.txt: {origin(DATA)}",
        f"        source: hub/data @ 1, content {'e' * 64}",
        f"        source: hub/more @ 2, content {'e' * 64}",
        f"    policy.txt: {origin(POLICY)}",
    ]
    assert list(trace(RESULT, depth=0))[:2] == [f"result.txt: {origin(RESULT)}", ""]


def test_a_file_without_inputs_has_its_settings() -> None:
    record(DATA_TASK)
    lines = list(trace(DATA))
    assert lines == [f"data.txt: {origin(DATA)}", '    settings: {"rows": 3}', ""]


def test_code_outside_a_checkout_has_an_unknown_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rspo.pipeline.provenance._git_commit", lambda: "")
    record(RESULT_TASK)
    assert ", commit unknown, " in next(trace(RESULT))


def test_the_parts_of_a_history_are_found_breadth_first() -> None:
    notes = history([RESULT])
    assert list(notes) == [RESULT, DATA, POLICY, OWN]
    assert notes[OWN] == {}
    assert notes[DATA] == read_provenance(DATA)
    assert originals(notes) == {OWN: digest(OWN)}
    assert sources(notes) == {"hub/data @ 1": [DATA], "hub/more @ 2": [DATA]}
    assert faults(notes) == []
    assert content_of(notes[DATA]) == "e" * 64
    assert content_of(notes[RESULT]) == digest(RESULT)


def test_an_own_file_that_changed_is_named_with_both_contents() -> None:
    before = digest(OWN)
    write_text(OWN, "changed")
    assert broken() == [
        f"data.txt was made from another version of own.csv ({before[:12]}, now "
        f"{digest(OWN)[:12]}); recreate it"
    ]


def test_an_own_file_that_is_missing_may_be_in_another_folder() -> None:
    OWN.unlink()
    assert broken() == [
        "own.csv is missing in this folder, or `rspo trace` was not started in that of the command"
    ]


def test_data_that_was_made_again_is_named_for_each_file_made_from_it() -> None:
    before = digest(DATA)
    make_data("other rows")
    versions = f"{before[:12]}, now {digest(DATA)[:12]}"
    assert broken() == [
        f"result.txt was made from another version of data.txt ({versions}); recreate it",
        f"policy.txt was made from another version of data.txt ({versions}); recreate it",
    ]


def test_damaged_missing_and_foreign_files_are_named() -> None:
    write_text(DATA, "ROWS")
    POLICY.unlink()
    assert broken() == [
        "data.txt was damaged or changed after it was written",
        "policy.txt is missing",
    ]
    make_data()
    provenance_path(POLICY).unlink()
    assert broken() == ["policy.txt is missing"]
    write_text(POLICY, "weights")
    assert broken() == ["policy.txt has no readable provenance, so its settings are unknown"]
    lines = trace(RESULT)
    assert "    policy.txt: no provenance" in [next(lines) for _ in range(6)]


def test_a_file_without_a_history_is_refused() -> None:
    with pytest.raises(InputError) as error:
        list(trace(Path("no.txt")))
    assert str(error.value) == "no.txt: no such file or folder"
    with pytest.raises(InputError) as error:
        list(trace(OWN))
    assert str(error.value) == ("own.csv: has no provenance (own.csv.provenance.json is missing)")


def test_provenance_that_cannot_be_read_is_refused() -> None:
    write_text(provenance_path(DATA), json.dumps([]))
    with pytest.raises(InputError) as error:
        list(trace(RESULT))
    assert str(error.value) == "data.txt.provenance.json: damaged; recreate data.txt"
