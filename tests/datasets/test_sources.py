"""`rspo prepare`: problems from correct sources, and clear messages about bad ones."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import content_sha256, prepare
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from tests.support import paper_scale

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MINERVA = "math-ai/minervamath/test.jsonl"


def with_hub(root: Path, first: int | None = None, **keys: Any) -> Experiment:
    """An experiment whose benchmark `minerva` has two rows and other keys as given.

    Args:
        first: `evaluation.problems`.
    """
    hub = {"rows": 2, "content_sha256": {}, **keys}
    suites = {"standard": {"minerva": {"hub": hub}}}
    return paper_scale.load(root, data={"suites": suites}, evaluation={"problems": first})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (or bytes) to a file of a mirror, and return the mirror."""

    def write_rows(rows: list[dict[str, Any]] | bytes, path: str = MINERVA) -> Path:
        mirror = tmp_path / "mirror"
        file = mirror / path
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        file.write_bytes(rows if isinstance(rows, bytes) else lines)
        return mirror

    return write_rows


def row(question: str = "1+1?", answer: Any = "2", **more: Any) -> dict[str, Any]:
    return {"question": question, "answer": answer} | more


def prepared(experiment: Experiment, mirror: Path | None) -> list[dict[str, Any]]:
    prepare(experiment, "minerva", mirror)
    return read_table(experiment.files.problems("minerva"), PROBLEMS)


def test_a_trial_has_the_first_problems_of_each_benchmark(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    """All rows are read and checked; training and validation keep theirs."""
    mirror = write([row("1+1?"), row("2+2?"), row("3+3?")])
    experiment = with_hub(tmp_path, first=2, rows=3)
    problems = prepared(experiment, mirror)
    assert [problem["prompt"][0]["content"] for problem in problems] == ["1+1?", "2+2?"]
    with pytest.raises(InputError, match="expected rows = 2, got 3"):
        prepare(with_hub(tmp_path, first=2), "minerva", mirror, force=True)
    assert "first" in tasks.prepare(experiment, "minerva").settings
    assert "first" not in tasks.prepare(experiment, "train").settings
    assert "first" not in tasks.prepare(experiment, "validation").settings


@pytest.mark.parametrize(
    ("answer", "forms"),
    [
        ("2", ["2"]),
        (" 2\n", ["2"]),
        (-4.0, ["-4"]),
        (0.5, ["0.5"]),
        ("025", ["025"]),
        (4.5e33, ["4.5e+33"]),
        (["$69$", "84"], ["$69$", "84"]),
        (["x", "", None], ["x"]),
    ],
)
def test_forms_of_an_answer(
    tmp_path: Path, write: Callable[..., Path], answer: Any, forms: list[str]
) -> None:
    rows = prepared(with_hub(tmp_path), write([row(), row("what?", answer)]))
    assert rows[1]["answers"] == forms


@pytest.mark.parametrize(
    ("solution", "forms"),
    [
        (r"so $\boxed{\frac{1}{\sqrt{2}}}$.", [r"\frac{1}{\sqrt{2}}"]),
        (r"so it is $\boxed 5$.", ["5"]),
        (r"$\boxed{1}$ and $\boxed{9}$", ["9", "1, 9"]),
        (r"$\boxed{30^\circ}$, $\fbox{60^\circ}$, $\boxed 90$", ["90", r"30^\circ, 60^\circ, 90"]),
        (r"$\boxed{7}$, as said: $\boxed{7}$", ["7"]),
        (r"$\boxed{7}$. A \boxedx is none.", ["7"]),
    ],
)
def test_a_solution_answers_with_its_last_box_or_with_all(
    tmp_path: Path, write: Callable[..., Path], solution: str, forms: list[str]
) -> None:
    mirror = write([row(answer=solution), row("what?", r"\boxed{2}")])
    assert prepared(with_hub(tmp_path, answer_in="box"), mirror)[0]["answers"] == forms


@pytest.mark.parametrize("nothing", ["", "  ", None, [], [""], float("nan")])
def test_rows_without_an_answer_are_dropped_and_listed(
    tmp_path: Path, write: Callable[..., Path], caplog: pytest.LogCaptureFixture, nothing: Any
) -> None:
    mirror = write([row("first", nothing), row("second")])
    (kept,) = prepared(with_hub(tmp_path, without_answer=1), mirror)
    assert (kept["id"], kept["row"]) == ("minerva/1", 1)
    assert "math-ai/minervamath/test, row 0" in caplog.text
    with pytest.raises(InputError, match=r"without_answer = 0, got 1 \(.*row 0\)"):
        prepare(with_hub(tmp_path), "minerva", mirror, force=True)


def test_context_and_unit_surround_a_problem(tmp_path: Path, write: Callable[..., Path]) -> None:
    """An answer is right without its unit too."""
    rows = [
        row(r"$\frac{1}{2}$?", ["4.2"], context="Let x = 1.", unit="%"),
        row("5 * 9?", ["45"], context=None, unit=None),
    ]
    keys = {"context": "context", "unit": "unit"}
    found = prepared(with_hub(tmp_path, **keys), write(rows))
    assert [(r["prompt"][0]["content"], r["answers"]) for r in found] == [
        ("Let x = 1.\n\n$\\frac{1}{2}$?", ["4.2", "4.2 %"]),
        ("5 * 9?", ["45"]),
    ]


def test_a_filter_keeps_the_rows_that_contain_its_text(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    """And ids count the rows of the source, so that another filter would not renumber them."""
    years = [row(f"{year}?", url=f"wiki/{year}_AIME") for year in (2022, 2024, 2023, 2024)]
    experiment = with_hub(tmp_path, filter={"column": "url", "contains": "2024"})
    found = prepared(experiment, write(years))
    assert [(r["id"], r["row"]) for r in found] == [("minerva/1", 1), ("minerva/3", 3)]


def test_excluded_problems_are_left_out_whatever_their_spaces(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    write([row("one"), row("two  words"), row("three")])
    mirror = write([{"problem": " two\nwords", "answer": "2"}], "HuggingFaceH4/MATH-500/test.jsonl")
    found = prepared(with_hub(tmp_path, exclude="math500"), mirror)
    assert [r["prompt"][0]["content"] for r in found] == ["one", "three"]


PROBLEMS_OF_TWO = [("What is $1+1$?", ["2"]), ("Solve $x^2=4$.", ["2", "-2"])]


def test_the_content_hash_is_the_sha256_of_one_json_line_per_problem() -> None:
    """You can compute it in a shell: printf '["..."]\\n...' | sha256sum"""
    lines = b'["What is $1+1$?", "2"]\n["Solve $x^2=4$.", "2", "-2"]\n'
    assert content_sha256(PROBLEMS_OF_TWO) == hashlib.sha256(lines).hexdigest()


@pytest.mark.parametrize(
    ("text", "answers", "same"),
    [
        ("  What  is\r\n\t$1+1$?", [" 2 "], True),
        ("What\u00a0is $1+1$?", ["2.0"], True),
        ("What is $1+2$?", ["2"], False),
        ("what is $1+1$?", ["2"], False),
        ("What is $1+1$?", ["02"], False),
        ("What is $1+1$?", ["2.00001"], False),
        ("What is $1+1$?", ["2", "two"], False),
    ],
)
def test_only_whitespace_and_trailing_zeros_leave_the_content_hash(
    text: str, answers: list[str], same: bool
) -> None:
    changed = content_sha256([(text, answers), PROBLEMS_OF_TWO[1]])
    assert (changed == content_sha256(PROBLEMS_OF_TWO)) == same
    assert content_sha256([("Poincare\u0301", [])]) == content_sha256([("Poincar\u00e9", [])])
    assert content_sha256(PROBLEMS_OF_TWO[::-1]) != content_sha256(PROBLEMS_OF_TWO)


def test_content_without_an_expected_hash_is_accepted_and_recorded(
    tmp_path: Path, write: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    experiment = with_hub(tmp_path)
    mirror = write([row("one"), row("two")])
    prepare(experiment, "minerva", mirror)
    actual = content_sha256([("one", ["2"]), ("two", ["2"])])
    (file,) = mirror.rglob("*.jsonl")
    source = f"{file.relative_to(mirror).with_suffix('')} @ sha256:{digest(file)}"
    assert read_provenance(experiment.files.problems("minerva"))["notes"] == {
        "rows": 2,
        "rows_without_answer": [],
        "content_sha256": actual,
        "sources": [source],
    }
    assert f"minerva: content not checked: it has content_sha256 {actual}" in caplog.text


@pytest.mark.parametrize("rows", [[row("one"), row("too")], [row("one"), row("two", "3")]])
def test_changed_content_is_refused_and_says_how_to_accept_it(
    tmp_path: Path, write: Callable[..., Path], rows: list[dict[str, Any]]
) -> None:
    expected = content_sha256([("one", ["2"]), ("two", ["2"])])
    mirror = write([row("one"), row("two ")])
    prepare(with_hub(tmp_path, content_sha256={2: expected}), "minerva", mirror)
    experiment = with_hub(tmp_path / "changed", content_sha256={2: expected})
    write(rows)
    with pytest.raises(InputError) as caught:
        prepare(experiment, "minerva", mirror)
    assert not experiment.files.problems("minerva").exists()
    actual = content_sha256([(r["question"], [r["answer"]]) for r in rows])
    message = str(caught.value)
    assert f"content_sha256 = {expected}, got {actual} from {mirror / MINERVA}" in message
    key = "data.suites.standard.minerva.hub.content_sha256"
    assert f"config/paper.yaml: {key} = {{2: {actual}}}" in message
    prepare(with_hub(tmp_path, content_sha256={2: actual}), "minerva", mirror)


def test_each_number_of_rows_has_its_own_content(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    two = content_sha256([("one", ["2"]), ("two", ["2"])])
    experiment = with_hub(tmp_path, rows=[1, 2], content_sha256={2: two})
    prepare(experiment, "minerva", write([row("one"), row("two")]))
    prepare(experiment, "minerva", write([row("another")]), force=True)
    with pytest.raises(InputError, match=r"hub\.content_sha256 = \{2: [0-9a-f]{64}\}"):
        prepare(experiment, "minerva", write([row("one"), row("three")]), force=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([row()], r"minerva: expected rows = 2, got 1 from .*test\.jsonl"),
        ([], "minerva: expected rows = 2, got 0 from math-ai/minervamath"),
        (
            [row(), {"question": "x", "solution": "y"}],
            r"test\.jsonl, line 2: the key 'answer' is missing; has question, solution",
        ),
        ([row(), row("  ")], r"line 2: 'question' is \"  \"; expected the problem's text"),
        ([row(), row("x", {"a": 1})], r"line 2: 'answer' is {\"a\": 1}; expected text, num"),
        ([row(), row("x", True)], r"line 2: 'answer' is true"),
        ([row(), row("x", float("inf"))], r"line 2: 'answer' is Infinity"),
    ],
)
def test_a_bad_mirror_is_refused(
    tmp_path: Path, write: Callable[..., Path], content: Any, message: str
) -> None:
    experiment = with_hub(tmp_path)
    with pytest.raises(InputError, match=message):
        prepare(experiment, "minerva", write(content))
    assert not experiment.files.problems("minerva").exists()


def test_a_folder_that_is_no_mirror_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mirror = .*nowhere: no such folder"):
        prepare(with_hub(tmp_path), "minerva", tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"mirror = .*: has none of the data sets; expected .*/"):
        prepare(with_hub(tmp_path), "minerva", tmp_path)


@pytest.mark.parametrize(("revision", "read"), [("f" * 40, "f" * 40), ("main", COMMIT)])
def test_the_hub_is_read_at_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, read: str
) -> None:
    """A branch is replaced by its commit, so that tables record it."""

    def load_dataset(id: str, *, name: str, split: str, revision: str) -> list[dict[str, Any]]:
        assert (id, name, split, revision) == ("math-ai/minervamath", "a", "test", read)
        return [row("one"), row("two", 3.0)]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    info = SimpleNamespace(dataset_info=lambda id, revision: SimpleNamespace(sha=COMMIT))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: info)
    rows = prepared(with_hub(tmp_path, revision=revision, configs=["a"]), None)
    assert [(r["answers"], r["source"], r["revision"], r["row"]) for r in rows] == [
        (["2"], "math-ai/minervamath/a/test", read, 0),
        (["3"], "math-ai/minervamath/a/test", read, 1),
    ]


def test_the_real_library_without_a_network_ends_in_one_line(tmp_path: Path) -> None:
    paper_scale.load(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "rspo", "prepare", "minerva", "--scale", "paper"],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(paper_scale.ROOT),
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "1",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "math-ai/minervamath/test" in line
    assert "set HF_TOKEN" in line
    assert "use a mirror" in line
