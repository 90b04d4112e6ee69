"""What `prepare` makes of sources that are whole, and what it says about those that are not."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.datasets.prepare import prepare
from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.tables import PROBLEMS, read_table

from . import paper_scale, tiny_world

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MINERVA = "math-ai/minervamath/test.jsonl"


def with_hub(root: Path, **keys: Any) -> Experiment:
    """An experiment whose benchmark `minerva` has two rows and other keys as given."""
    hub = {"rows": 2, **keys}
    suites = {"standard": {"minerva": {"hub": hub}}}
    return paper_scale.load(root, data={"suites": suites})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a mirror file of rows (or of text) and give the mirror."""

    def write_rows(rows: list[dict[str, Any]] | str, path: str = MINERVA) -> Path:
        mirror = tmp_path / "mirror"
        file = mirror / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        )
        return mirror

    return write_rows


def row(question: str = "1+1?", answer: Any = "2", **more: Any) -> dict[str, Any]:
    return {"question": question, "answer": answer} | more


def prepared(experiment: Experiment, mirror: Path | None) -> list[dict[str, Any]]:
    prepare(experiment, "minerva", mirror)
    return read_table(experiment.problems("minerva"), PROBLEMS)


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "forms"),
    [
        ("2", ["2"]),
        (" 2\n", ["2"]),
        (2, ["2"]),
        (142.0, ["142"]),
        (-4.0, ["-4"]),
        (0.5, ["0.5"]),
        ("142.0", ["142.0"]),
        ("025", ["025"]),
        (["$69$", "84"], ["$69$", "84"]),
        (["x", "", None], ["x"]),
    ],
)
def test_forms_of_an_answer(
    tmp_path: Path, write: Callable[..., Path], answer: Any, forms: list[str]
) -> None:
    rows = prepared(with_hub(tmp_path), write([row(), row("what?", answer)]))
    assert rows[1]["answers"] == forms


@pytest.mark.parametrize("nothing", ["", "  ", None, [], [""], float("nan")])
def test_rows_without_an_answer_go_and_are_named(
    tmp_path: Path, write: Callable[..., Path], caplog: pytest.LogCaptureFixture, nothing: Any
) -> None:
    mirror = write([row("first", nothing), row("second")])
    (kept,) = prepared(with_hub(tmp_path, without_answer=1), mirror)
    assert (kept["id"], kept["row"]) == ("minerva/1", 1)
    assert "math-ai/minervamath/test, row 0" in caplog.text
    with pytest.raises(InputError, match=r"expected 0 rows without an answer, 1 came; .*row 0"):
        prepare(with_hub(tmp_path), "minerva", mirror)


def test_context_stands_in_front_of_its_question(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    mirror = write([row(context="Let x = 1."), row(context=None)])
    texts = [found["prompt"][0]["content"] for found in prepared(with_hub(tmp_path), mirror)]
    assert texts == ["Let x = 1.\n\n1+1?", "1+1?"]


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


def test_families_of_a_mixture_take_turns(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path)
    prepare(experiment, "train", None)
    rows = read_table(experiment.problems("train"), PROBLEMS)
    families = experiment.config.data.train.generated.families  # type: ignore[union-attr]
    assert [r["benchmark"] for r in rows] == list(families) * 12
    assert [r["row"] for r in rows] == [turn for turn in range(12) for _ in families]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([row()], r"minerva: expected 2 rows, 1 came from .*test\.jsonl"),
        ([row()] * 3, r"minerva: expected 2 rows, 3 came from .*test\.jsonl"),
        ([], r"test\.jsonl: has no rows; expected 2 in math-ai/minervamath"),
        ("", r"test\.jsonl: has no rows"),
        ('{"question": "1+1?", "answer": "2"}\n{"question": "1+', r"test\.jsonl, line 2: not JSON"),
        ("[1, 2]\n", r"test\.jsonl, line 1: expected a JSON object"),
        (
            [row(), {"question": "x", "solution": "y"}],
            r"test\.jsonl, line 2: the column 'answer' is missing; has question, solution",
        ),
        ([row(), {"q": "x", "answer": "y"}], r"line 2: the column 'question' is missing; has q, a"),
        ([row(), row("  ")], r"line 2: column 'question' is '  '; a problem's text is needed"),
        ([row(), row("x", {"a": 1})], r"line 2: column 'answer' has {'a': 1}; allowed: text, num"),
        ([row(), row("x", True)], r"line 2: column 'answer' has True"),
        ([row(), row("x", float("inf"))], r"line 2: column 'answer' has inf"),
    ],
)
def test_a_bad_mirror_is_refused(
    tmp_path: Path, write: Callable[..., Path], content: Any, message: str
) -> None:
    experiment = with_hub(tmp_path)
    with pytest.raises(InputError, match=message):
        prepare(experiment, "minerva", write(content))
    assert not experiment.problems("minerva").exists()


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path, write: Callable[..., Path]) -> None:
    mirror = write([row()])
    (mirror / MINERVA).write_bytes(b'{"question": "\xff"}\n')
    with pytest.raises(InputError, match=r"test\.jsonl, line 1: not JSON"):
        prepare(with_hub(tmp_path), "minerva", mirror)


def test_a_missing_file_says_what_is_there(tmp_path: Path, write: Callable[..., Path]) -> None:
    mirror = write([row()], "math-ai/minervamath/train.jsonl")
    with pytest.raises(InputError, match=r"no such file .*its folder has train\.jsonl"):
        prepare(with_hub(tmp_path), "minerva", mirror)
    with pytest.raises(InputError, match=r"no such file .*nor is its folder there"):
        prepare(with_hub(tmp_path), "minerva", tmp_path / "nowhere")


def test_a_box_column_must_hold_text(tmp_path: Path, write: Callable[..., Path]) -> None:
    experiment = with_hub(tmp_path, answer_in="box")
    with pytest.raises(InputError, match="line 2: column 'answer' is 5; expected text"):
        prepare(experiment, "minerva", write([row(answer=r"\boxed{2}"), row("x", 5)]))


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data set 'aime1999' .*aime2024"):
        prepare(paper_scale.load(tmp_path), "aime1999", None)


# --- the hub --------------------------------------------------------------------------------------


class Hub:
    """Stands for the `datasets` library: gives rows, or raises, and remembers what was asked."""

    def __init__(self, answer: list[dict[str, Any]] | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def load_dataset(self, id: str, *, name: str | None, split: str, revision: str) -> Any:
        self.asked.append((id, name, split, revision))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hub]:
    def install(answer: list[dict[str, Any]] | Exception, commit: str = COMMIT) -> Hub:
        made = Hub(answer)
        monkeypatch.setitem(sys.modules, "datasets", made)
        info = SimpleNamespace(dataset_info=lambda id, revision: SimpleNamespace(sha=commit))
        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=lambda: info))
        return made

    return install


def test_the_hub_is_read_at_the_pinned_commit(tmp_path: Path, hub: Callable[..., Hub]) -> None:
    library = hub([row("one"), row("two", 3.0)])
    rows = prepared(with_hub(tmp_path, revision="f" * 40, configs=["a"]), None)
    assert library.asked == [("math-ai/minervamath", "a", "test", "f" * 40)]
    assert [(r["answers"], r["source"], r["revision"], r["row"]) for r in rows] == [
        (["2"], "math-ai/minervamath/a/test", "f" * 40, 0),
        (["3"], "math-ai/minervamath/a/test", "f" * 40, 1),
    ]


def test_a_branch_is_pinned_to_its_commit_first(tmp_path: Path, hub: Callable[..., Hub]) -> None:
    library = hub([row("one"), row("two")])
    rows = prepared(with_hub(tmp_path, revision="main"), None)
    assert library.asked == [("math-ai/minervamath", None, "test", COMMIT)]
    assert {r["revision"] for r in rows} == {COMMIT}


@pytest.mark.parametrize(
    ("token", "said"), [(None, "HF_TOKEN is missing"), ("hf_x", "HF_TOKEN is set")]
)
def test_a_gated_set_says_where_to_accept_its_terms(
    tmp_path: Path,
    hub: Callable[..., Hub],
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    said: str,
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    hub(RuntimeError("Dataset 'x' is a gated dataset on the Hub.\nYou must be authenticated"))
    experiment = paper_scale.load(tmp_path)
    with pytest.raises(InputError) as error:
        prepare(experiment, "livemathbench", None)
    message = str(error.value)
    assert "https://huggingface.co/datasets/opencompass/LiveMathBench" in message
    assert said in message
    assert "\n" not in message
    if token:
        assert token not in message


def test_another_error_of_the_hub_is_one_line(tmp_path: Path, hub: Callable[..., Hub]) -> None:
    hub(ValueError("Unknown split \"tset\".\nShould be one of ['test']."))
    with pytest.raises(InputError, match=r"Unknown split .* Should be one of .*give a mirror"):
        prepare(with_hub(tmp_path), "minerva", None)


def test_no_library_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="needs the package datasets"):
        prepare(with_hub(tmp_path), "minerva", None)


def test_the_real_library_without_a_network_ends_in_one_line(tmp_path: Path) -> None:
    paper_scale.load(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "rspo.cli", "prepare", "minerva", "--scale", "paper"],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(paper_scale.ROOT),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "cache"),
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "math-ai/minervamath/test" in line
    assert "give a mirror" in line
