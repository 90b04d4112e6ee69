"""Data sets that are files of the user: JSON lines, CSV and Parquet."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare, require_own_files
from rspo.pipeline import tasks
from rspo.pipeline.run import require_current
from tests.support import tiny_world

Rows = Sequence[Mapping[str, Any]]
FORMATS = ("jsonl", "csv", "parquet")
TWO = [{"question": "1+1=?", "gold": "2"}, {"question": "2*7=?", "gold": "014"}]
GENERATED = {"families": ["linear"], "split": "test", "problems": 1}
KEY = "config/tiny.yaml: data.suites.standard.mine"


def write(path: Path, rows: Rows) -> None:
    """Write rows in the format of the file's suffix."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def row(question: str, gold: str = "1") -> dict[str, str]:
    return {"question": question, "gold": gold}


def load(root: Path, file: str = "my.jsonl", **keys: Any) -> Experiment:
    """The small experiment with one more benchmark, `mine`."""
    return tiny_world.load(root, data=with_benchmark(file, **keys))


def load_published(root: Path, file: str, **keys: Any) -> Experiment:
    """The same with published models, whose tokenizers read every character."""
    model = {"scratch": None, "hub": {"id": "owner/name", "revision": "main"}}
    models = {"small": model, "medium": model}
    return tiny_world.load(root, data=with_benchmark(file, **keys), models=models, sampler="vllm")


def with_benchmark(file: str, **keys: Any) -> dict[str, Any]:
    mine = {"label": "Mine", "file": file, "problem": "question", "answer": "gold", **keys}
    suites = tiny_world.OVERRIDES["data"]["suites"]
    standard = suites["standard"] | {"mine": mine}
    return tiny_world.OVERRIDES["data"] | {"suites": suites | {"standard": standard}}


def prepared(experiment: Experiment) -> list[dict[str, Any]]:
    prepare(experiment, "mine")
    return read_table(experiment.files.problems("mine"), PROBLEMS)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_of_any_format_becomes_the_same_problems(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"my.{suffix}"
    write(file, TWO)
    rows = prepared(load(tmp_path, file.name))
    assert rows == [
        {
            "id": f"mine/{number}",
            "benchmark": "mine",
            "prompt": [{"role": "user", "content": problem}],
            "answers": [answer],
            "source": file.name,
            "revision": f"sha256:{digest(file)}",
            "row": number,
        }
        for number, (problem, answer) in enumerate([("1+1=?", "2"), ("2*7=?", "014")])
    ]


def test_a_csv_file_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """With a byte order mark, line breaks in quotes, and empty lines at the end."""
    text = '\ufeffquestion,gold\r\n"one,\ntwo?",3\r\n\r\n'
    (tmp_path / "my.csv").write_bytes(text.encode())
    (found,) = prepared(load_published(tmp_path, "my.csv"))
    assert found["prompt"][0]["content"] == "one,\ntwo?"


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([row("a"), row("b", "")], ["line 2", "'gold' is \"\"", "an answer"]),
        ([row(" ")], ["line 1", "'question' is \" \""]),
        ([row("a"), row("b"), row("a", "2")], ["line 3", "the same problem as line 1"]),
        ([{"question": "a", "answer": "1"}], ["'gold'", "has question, answer"]),
        ([{"text": "a", "gold": "1"}], ["'question'", "has text, gold"]),
    ],
)
def test_a_bad_row_is_named_with_what_is_allowed(
    tmp_path: Path, rows: Rows, parts: list[str]
) -> None:
    write(tmp_path / "my.jsonl", rows)
    experiment = load_published(tmp_path, "my.jsonl")
    for check in (lambda: prepare(experiment, "mine"), lambda: require_own_files(experiment)):
        with pytest.raises(InputError) as error:
            check()
        for part in (str(tmp_path / "my.jsonl"), KEY, *parts):
            assert part in str(error.value)
        assert "\n" not in str(error.value)
    assert not experiment.files.problems("mine").exists()


def test_a_character_that_a_model_from_scratch_cannot_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "my.jsonl", [*TWO, row(r"3+4=\boxed{"), row("3+4!")])
    with pytest.raises(InputError, match=r"my.jsonl, line 4: '3\+4!' has '!', which model medium"):
        prepared(load(tmp_path))
    assert len(prepared(load_published(tmp_path / "second", "../my.jsonl"))) == 4


def test_the_line_of_a_bad_row_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_text('\n{"question": "a", "gold": 1}\n\n{"question": "b"}\n')
    with pytest.raises(InputError, match=r"my.jsonl, line 4: the key 'gold' is missing"):
        prepare(load(tmp_path), "mine")
    (tmp_path / "my.csv").write_text('question,gold\n"a\nb",1\n\nc,\n')
    with pytest.raises(InputError, match=r"my.csv, line 5: 'gold' is \"\""):
        prepare(load_published(tmp_path, "my.csv"), "mine")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("my.jsonl", b"not json\n", "my.jsonl, line 1: not JSON"),
        ("my.jsonl", b"", "my.jsonl: has no rows"),
        ("my.csv", b"question,gold\n", "my.csv: has no rows"),
        ("my.csv", None, "my.csv: no such file"),
        ("my.csv", b"question,gold\na,1,2\n", "my.csv, line 2: has 3 values; expected 2"),
        ("my.csv", b"gold,gold\n1,2\n", "my.csv: the column 'gold' is duplicated"),
        ("my.csv", b'question,gold\n"a,1\n', "my.csv, line 2: not CSV"),
        ("my.csv", b"question,gold\n\xff,1\n", "my.csv: not UTF-8"),
        ("my.parquet", b"question,gold\n", "my.parquet: not Parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        require_own_files(load(tmp_path, name))
    assert KEY in str(error.value)
    assert "\n" not in str(error.value)


def test_the_options_of_the_hub_work_for_a_file(tmp_path: Path) -> None:
    kept = {"question": "how long?", "gold": r"so \boxed{4}", "unit": "cm", "about": "A."}
    left_out = {"question": "left out", "gold": r"\boxed{5}", "unit": "", "about": ""}
    write(tmp_path / "my.csv", [kept | {"set": "x1"}, left_out | {"set": "y"}])
    options = {"answer_in": "box", "unit": "unit", "context": "about"}
    options["filter"] = {"column": "set", "contains": "x"}
    (found,) = prepared(load_published(tmp_path, "my.csv", **options))
    assert found["prompt"][0]["content"] == "A.\n\nhow long?"
    assert found["answers"] == ["4", "4 cm"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"problem": "q"}, "needs exactly one of: generated, reasoning_gym, hub, file"),
        (
            {"generated": GENERATED, "answer": "x"},
            "answer is a key of file; problems that are made have none",
        ),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    suites = {"own": {"mine": {"label": "Mine", **entry}}}
    with pytest.raises(InputError, match=message) as error:
        tiny_world.load(tmp_path, data={"suites": suites})
    assert "data.suites.own.mine" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_with_fewer_problems_than_a_step_needs_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    write(tmp_path / "my.jsonl", TWO)
    train = {"generated": None, "file": "my.jsonl", "problem": "question", "answer": "gold"}
    experiment = tiny_world.load(tmp_path, data={"train": train})
    message = "my.jsonl: has 2 problems, fewer than training.prompts_per_step = 10"
    with pytest.raises(InputError, match=message):
        require_own_files(experiment)


def test_a_changed_file_is_prepared_again_and_a_touched_one_is_not_out_of_date(
    tmp_path: Path,
) -> None:
    file = tmp_path / "my.jsonl"
    write(file, TWO)
    experiment = load(tmp_path)
    prepare(experiment, "mine")
    before = tasks.prepare(experiment, "mine").settings_hash
    file.touch()
    assert tasks.prepare(experiment, "mine").settings_hash == before
    require_problems(experiment)
    write(file, TWO[:1])
    assert tasks.prepare(experiment, "mine").settings_hash != before
    again = re.escape(f"`{experiment.command('prepare', 'mine')} --force`")
    with pytest.raises(InputError, match=f"content: .*{again}"):
        require_problems(experiment)
    prepare(experiment, "mine", force=True)
    assert len(read_table(experiment.files.problems("mine"), PROBLEMS)) == 1
    require_problems(experiment)


def require_problems(experiment: Experiment) -> None:
    """The check of every command that reads the problems."""
    require_current(tasks.prepare(experiment, "mine"), experiment.files.problems("mine"))
