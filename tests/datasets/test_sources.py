"""`rspo prepare`: problems from correct sources, and clear messages about bad ones."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import httpx
import huggingface_hub
import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils import hf_raise_for_status

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.content import content_sha256
from rspo.datasets.prepare import prepare
from tests.support import paper_scale, tiny_world

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
    return read_table(experiment.problems("minerva"), PROBLEMS)


def test_a_trial_has_the_first_problems_of_each_benchmark(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    """All rows are read and checked; training and validation keep theirs."""
    mirror = write([row("1+1?"), row("2+2?"), row("3+3?")])
    experiment = with_hub(tmp_path, first=2, rows=3)
    problems = prepared(experiment, mirror)
    assert [problem["prompt"][0]["content"] for problem in problems] == ["1+1?", "2+2?"]
    with pytest.raises(InputError, match="expected 2 rows, got 3"):
        prepare(with_hub(tmp_path, first=2), "minerva", mirror, force=True)
    assert experiment.first_problems_of("train") is None
    assert experiment.first_problems_of("validation") is None


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
        ("4.5e33", ["4.5e33"]),
        (4.5e33, ["4.5e+33"]),
        (1e-5, ["1e-05"]),
        (r"336^\circ", [r"336^\circ"]),
        (r"5\text{ cm}^2", [r"5\text{ cm}^2"]),
        ("$69$,$84$", ["$69$,$84$"]),
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
    with pytest.raises(InputError, match=r"expected 0 rows without an answer, got 1; .*row 0"):
        prepare(with_hub(tmp_path), "minerva", mirror, force=True)


def test_context_precedes_its_question(tmp_path: Path, write: Callable[..., Path]) -> None:
    mirror = write([row(context="Let x = 1."), row(context=None)])
    experiment = with_hub(tmp_path, context="context")
    texts = [found["prompt"][0]["content"] for found in prepared(experiment, mirror)]
    assert texts == ["Let x = 1.\n\n1+1?", "1+1?"]


def test_an_answer_is_right_with_its_unit_and_without(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    rows = [row(answer=["4.2"], unit="%"), row("how long?", ["45"], unit=None)]
    found = prepared(with_hub(tmp_path, unit="unit"), write(rows))
    assert [r["answers"] for r in found] == [["4.2", "4.2 %"], ["45"]]


def test_a_prompt_puts_its_words_around_the_problem(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    """And braces of the problem are no placeholders."""
    mirror = write([row(r"$\frac{1}{2}$ of {answer}?"), row("{problem}")])
    found = prepared(with_hub(tmp_path, prompt="Q: {problem}\nA letter, please."), mirror)
    assert [r["prompt"][0]["content"] for r in found] == [
        "Q: $\\frac{1}{2}$ of {answer}?\nA letter, please.",
        "Q: {problem}\nA letter, please.",
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


def test_families_of_a_mixture_take_turns(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path)
    prepare(experiment, "train", None)
    rows = read_table(experiment.problems("train"), PROBLEMS)
    families = experiment.config.data.train.generated.families  # type: ignore[union-attr]
    assert [r["benchmark"] for r in rows] == list(families) * 12
    assert [r["row"] for r in rows] == [turn for turn in range(12) for _ in families]


def notes(experiment: Experiment) -> dict[str, Any]:
    path = experiment.problems("minerva")
    note = json.loads(path.with_name(path.name + ".provenance.json").read_text())
    found: dict[str, Any] = note["notes"]
    return found


def test_content_without_an_expected_hash_is_accepted_and_recorded(
    tmp_path: Path, write: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    experiment = with_hub(tmp_path)
    mirror = write([row("one"), row("two")])
    prepare(experiment, "minerva", mirror)
    actual = content_sha256([("one", ["2"]), ("two", ["2"])])
    (file,) = mirror.rglob("*.jsonl")
    source = f"{file.relative_to(mirror).with_suffix('')} @ sha256:{digest(file)}"
    assert notes(experiment) == {
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
    prepare(with_hub(tmp_path, content_sha256=expected), "minerva", mirror)
    experiment = with_hub(tmp_path / "changed", content_sha256=expected)
    write(rows)
    with pytest.raises(InputError) as caught:
        prepare(experiment, "minerva", mirror)
    assert not experiment.problems("minerva").exists()
    actual = content_sha256([(r["question"], [r["answer"]]) for r in rows])
    message = str(caught.value)
    assert f"expected content_sha256 {expected}, got {actual} from {mirror / MINERVA}" in message
    key = "data.suites.standard.minerva.hub.content_sha256"
    assert f"config/paper.yaml: {key} = {actual}" in message
    prepare(with_hub(tmp_path, content_sha256=actual), "minerva", mirror)


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
        ([row()], r"minerva: expected 2 rows, got 1 from .*test\.jsonl"),
        ([row()] * 3, r"minerva: expected 2 rows, got 3 from .*test\.jsonl"),
        ([], r"test\.jsonl: has no rows; expected 2 in math-ai/minervamath"),
        (b"", r"test\.jsonl: has no rows"),
        (b'{"question": "1+1?", "answer": "2"}\n{"question": "1+', r"jsonl, line 2: not JSON"),
        (b'{"question": "\xff"}\n', r"test\.jsonl, line 1: not UTF-8"),
        (b"[1, 2]\n", r"test\.jsonl, line 1: expected a JSON object"),
        (
            [row(), {"question": "x", "solution": "y"}],
            r"test\.jsonl, line 2: the column 'answer' is missing; has question, solution",
        ),
        ([row(), {"q": "x", "answer": "y"}], r"line 2: the column 'question' is missing; has q, a"),
        ([row(), row("  ")], r"line 2: column 'question' is '  '; expected the problem's text"),
        ([row(), row("x", {"a": 1})], r"line 2: column 'answer' is {'a': 1}; expected text, num"),
        ([row(), row("x", True)], r"line 2: column 'answer' is True"),
        ([row(), row("x", float("inf"))], r"line 2: column 'answer' is inf"),
    ],
)
def test_a_bad_mirror_is_refused(
    tmp_path: Path, write: Callable[..., Path], content: Any, message: str
) -> None:
    experiment = with_hub(tmp_path)
    with pytest.raises(InputError, match=message):
        prepare(experiment, "minerva", write(content))
    assert not experiment.problems("minerva").exists()


def test_a_missing_file_says_what_is_there(tmp_path: Path, write: Callable[..., Path]) -> None:
    mirror = write([row()], "math-ai/minervamath/train.jsonl")
    with pytest.raises(InputError, match=r"no such file .*its folder has train\.jsonl"):
        prepare(with_hub(tmp_path), "minerva", mirror)
    with pytest.raises(InputError, match=r"no such file .*its folder does not exist"):
        prepare(with_hub(tmp_path), "amc", mirror)


def test_a_folder_that_is_no_mirror_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mirror = .*nowhere: no such folder"):
        prepare(with_hub(tmp_path), "minerva", tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"mirror = .*: has none of the data sets; expected .*/"):
        prepare(with_hub(tmp_path), "minerva", tmp_path)


def test_a_box_column_must_hold_text(tmp_path: Path, write: Callable[..., Path]) -> None:
    experiment = with_hub(tmp_path, answer_in="box")
    with pytest.raises(InputError, match="line 2: column 'answer' is 5; expected text"):
        prepare(experiment, "minerva", write([row(answer=r"\boxed{2}"), row("x", 5)]))


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data set 'aime1999' .*aime2024"):
        prepare(paper_scale.load(tmp_path), "aime1999", None)


class Hub:
    """A simulated hub: returns rows, or raises, and records the requests."""

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
        monkeypatch.setattr(datasets, "load_dataset", made.load_dataset)
        info = SimpleNamespace(dataset_info=lambda id, revision: SimpleNamespace(sha=commit))
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: info)
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


LIVE = "opencompass/LiveMathBench"


def answered(status: int, **headers: str) -> HfHubHTTPError:
    """What huggingface_hub makes of an answer of the hub."""
    request = httpx.Request("GET", f"https://huggingface.co/api/datasets/{LIVE}/revision/main")
    named = {f"X-{name.replace('_', '-')}": value for name, value in headers.items()}
    with pytest.raises(HfHubHTTPError) as caught:
        hf_raise_for_status(httpx.Response(status, headers=named, request=request))
    return caught.value


GATED = {
    "the hub, without a token": answered(401, Error_Code="GatedRepo"),
    "the hub, with a token": answered(403, Error_Code="GatedRepo"),
    "the data sets library, without a token": DatasetNotFoundError(
        f"Dataset '{LIVE}' is a gated dataset on the Hub. You must be authenticated to access it."
    ),
    "the data sets library, with a token": DatasetNotFoundError(
        f"Dataset '{LIVE}' is a gated dataset on the Hub. Visit the dataset page at "
        f"https://huggingface.co/datasets/{LIVE} to ask for access."
    ),
}
DENIED = {
    "401": answered(401),
    "401, bad token": answered(401, Error_Message="Invalid credentials in Authorization header"),
    "403": answered(403, Error_Message="Forbidden"),
    "no such set": answered(404, Error_Code="RepoNotFound"),
    "the data sets library": DatasetNotFoundError(
        f"Dataset '{LIVE}' doesn't exist on the Hub or cannot be accessed."
    ),
}


def test_the_simulated_answers_are_of_the_real_classes() -> None:
    assert {type(error) for error in GATED.values()} == {GatedRepoError, DatasetNotFoundError}
    assert {type(error) for error in DENIED.values()} == {
        RepositoryNotFoundError,
        HfHubHTTPError,
        DatasetNotFoundError,
    }


@pytest.mark.parametrize("token", [None, "hf_secret"])
@pytest.mark.parametrize("error", [*GATED, *DENIED])
def test_a_gated_data_set_says_where_to_accept_its_terms(
    tmp_path: Path,
    hub: Callable[..., Hub],
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    error: str,
) -> None:
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: token)
    hub((GATED | DENIED)[error])
    with pytest.raises(InputError) as caught:
        prepare(paper_scale.load(tmp_path), "livemathbench", None)
    message = str(caught.value)
    assert ("the data set is gated" if error in GATED else "if it is gated") in message
    assert f"accept its terms at https://huggingface.co/datasets/{LIVE}" in message
    assert ("HF_TOKEN is missing" if token is None else "account has no access") in message
    assert "or use a mirror" in message
    assert "\n" not in message
    assert "hf_secret" not in message


class GatedHub(BaseHTTPRequestHandler):
    """The hub's answers about a gated set: what it is, and a refusal of each of its files."""

    def do_GET(self) -> None:
        about = self.path.startswith(f"/api/datasets/{LIVE}/revision/")
        self.send_response(200 if about else 401)
        if not about:
            self.send_header("X-Error-Code", "GatedRepo")
        body = json.dumps({"id": LIVE, "sha": COMMIT, "siblings": []}) if about else "{}"
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on the screen."""


def test_the_real_libraries_and_a_gated_set_end_in_one_line(tmp_path: Path) -> None:
    paper_scale.load(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), GatedHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        done = prepare_in_a_process(tmp_path, "livemathbench", endpoint)
        server.shutdown()
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "the data set is gated" in line
    assert f"accept its terms at https://huggingface.co/datasets/{LIVE}" in line
    assert "HF_TOKEN is missing" in line


def test_another_error_of_the_hub_is_one_line(tmp_path: Path, hub: Callable[..., Hub]) -> None:
    hub(ValueError("Unknown split \"tset\".\nShould be one of ['test']."))
    with pytest.raises(InputError, match=r"Unknown split .* Should be one of .*use a mirror"):
        prepare(with_hub(tmp_path), "minerva", None)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="needs the package datasets"):
        prepare(with_hub(tmp_path), "minerva", None)


def test_the_real_library_without_a_network_ends_in_one_line(tmp_path: Path) -> None:
    paper_scale.load(tmp_path)
    done = prepare_in_a_process(tmp_path, "minerva", {"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "math-ai/minervamath/test" in line
    assert "use a mirror" in line


def prepare_in_a_process(
    folder: Path, name: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    bare = {
        "PYTHONPATH": str(paper_scale.ROOT),
        "HF_HOME": str(folder / "cache"),
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.run(
        [sys.executable, "-m", "rspo.cli", "prepare", name, "--scale", "paper"],
        cwd=folder,
        env=bare | environment,
        capture_output=True,
        text=True,
    )
