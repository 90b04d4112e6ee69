"""The report: complete, safe to open, and the same page for the same files.

`test_report_browser.py` opens it in a browser.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import rspo.report as report_package
from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_json_lines
from rspo.core.tables import (
    SAMPLES,
    SCORES,
    read_csv,
    read_table,
    write_csv,
    write_table,
)
from rspo.datasets.generated import ABOUT
from rspo.figures import figures_of, in_all
from rspo.report import readable, results_inputs
from rspo.report.page import write_report, write_results
from rspo.report.page_data import used_by_models
from rspo.report.text import table_cell, visible
from tests.support import small_paper
from tests.support.tasks import adopt

REPORT = Path("reports/report.html")  # in the current folder


class Tree:
    """The texts of a page's sections, and its tables by their captions."""

    def __init__(self, page: str) -> None:
        sections = re.findall(r'<section id="(\w+)">(.*?)</section>', page, re.DOTALL)
        self.sections = {name: text_of(body) for name, body in sections}
        tables = re.findall(r"<caption>(.*?)</caption>(.*?)</table>", page, re.DOTALL)
        self.tables = {text_of(caption): cells_of(body) for caption, body in tables}


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


def cells_of(table: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [[*map(text_of, re.findall(r"<t[dh]\b.*?>(.*?)</t[dh]>", r, re.DOTALL))] for r in rows]


@pytest.fixture(scope="module")
def once(small_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a report, for the tests that change nothing."""
    root = tmp_path_factory.mktemp("report") / "project"
    shutil.copytree(small_results, root)
    with contextlib.chdir(root):
        write_report(small_paper.load())
    return root


@pytest.fixture
def made(once: Path) -> Iterator[Experiment]:
    with contextlib.chdir(once):
        yield small_paper.load()


@pytest.fixture
def tree(made: Experiment) -> Tree:
    return Tree(REPORT.read_text())


@pytest.fixture
def experiment(small_project: Path) -> Experiment:
    return small_paper.load()


def page_of(experiment: Experiment) -> str:
    write_report(experiment, force=True)
    return REPORT.read_text()


def rows_of(path: Path) -> list[dict[str, str]]:
    return read_csv(path).to_dict("records")


def test_every_figure_is_there_with_its_caption(made: Experiment, tree: Tree) -> None:
    figures = figures_of(made)  # with those of entries of the grid that are not the paper's
    for name in in_all(made):
        section = tree.sections["figures"]
        assert figures[name].caption in section
    pictures = re.findall('<img src="data:image/png;base64,[^"]*" alt="(.*?)">', REPORT.read_text())
    captions = [figures[name].caption for name in in_all(made)]
    for text in map(unescape, pictures):
        assert text
        assert ";" not in text  # the details of a caption follow a semicolon
        assert any(caption.startswith(text) for caption in captions)
    assert len(pictures) == len(in_all(made)) + 2  # fig_difference and fig_group are above, too


def test_the_main_table_has_pass_at_k_of_every_method(made: Experiment, tree: Tree) -> None:
    text = tree.sections["table"]
    rows = [
        row for row in rows_of(REPORT.with_name("fig_main.csv")) if row["benchmark"] == "pooled"
    ]
    assert len(rows) > 10
    for row in rows:
        estimate, low, high = (float(row[key]) for key in ("estimate", "low", "high"))
        numbers = f"{estimate:.1f} ({low:.1f} to {high:.1f})"
        assert numbers.replace("-", "\u2212") in text
        assert str(row["method"]) in text


def test_the_setup_counts_what_was_run(made: Experiment, tree: Tree) -> None:
    text = tree.sections["setup"]
    files = [made.files.scores(policy, "standard", 0) for policy in made.policies]
    verified = sum(len(read_table(file, SCORES)) for file in files)
    assert f"{verified:,}, of {len(made.policies)} policies" in text


def test_the_share_of_responses_without_an_answer_is_there(made: Experiment, tree: Tree) -> None:
    for policy in dict.fromkeys(policy for policy, _ in readable(made)):
        rows = read_table(made.files.scores(policy, "standard", 0), SCORES)
        without = sum(row["verdict"] == "no answer" for row in rows)
        assert f"{policy} on standard: {without / len(rows):.1%}" in tree.sections["setup"]


def test_claims_have_their_verdicts_and_titles_stay_text(experiment: Experiment) -> None:
    path, title = experiment.files.reports / "claims.csv", "<script>alert(1)</script>"
    write_csv(path, read_csv(path).assign(title=title, hypothesis="a < b & b > c"))
    adopt(path)
    page = page_of(experiment)
    assert "<script" not in page
    text = " ".join(Tree(page).sections["claims"].split())
    for row in rows_of(path):
        verdict, _, reason = row["verdict"].partition(": ")
        assert f"{row['claim']} {title}a < b & b > c {verdict}" in text
        assert not reason or f"Not tested: {reason}." in text
    assert any(": " in row["verdict"] for row in rows_of(path))


def test_cost_is_summed_over_steps(experiment: Experiment) -> None:
    path = experiment.files.table("cost")
    rows = read_csv(path).assign(wall_seconds="3661.5", cpu_seconds="59.4", gpu_seconds="0")
    write_csv(path, rows)
    adopt(path)
    tables = Tree(page_of(experiment)).tables
    (caption,) = (caption for caption in tables if caption.startswith("Time by policy, "))
    counts = {name: int(count) for name, count in rows["policy"].value_counts().items()}
    for name, wall, cpu, _ in tables[caption][1:]:
        count = counts.get(name, len(rows))
        assert [wall, cpu] == [clock(count * 3661.5), clock(count * 59.4)]
    assert [row[0] for row in tables[caption][1:]] == [*counts, "all"]


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def test_provenance_names_the_data(made: Experiment, tree: Tree) -> None:
    sources = {row[0] for row in tree.tables["Where the data come from"][1:]}
    assert {f"generated/{name}/test @ 2" for name in made.benchmarks_of("standard")} <= sources


CELL = "small--rspo-pass--k2--n8--s0"  # the one whose responses are shown
GRADIENT = "small--policy-gradient--k1--n8--s0"
HOSTILE = (
    "</pre><script>alert('x')</script><img src=http://evil/ onerror=alert(1)>\x1b[31m\u202etxt"
)


def rewrite(path: Path, table: pa.Schema, change: Callable[[int, dict[str, object]], None]) -> None:
    rows = read_table(path, table)
    for place, row in enumerate(rows):
        change(place, row)
    write_table(path, table, rows)
    adopt(path)


def test_each_benchmark_has_a_right_a_wrong_and_the_longest_response(
    experiment: Experiment,
) -> None:
    def judge(place: int, row: dict[str, object]) -> None:
        row["correct"] = place == 9

    def write(place: int, row: dict[str, object]) -> None:
        row["text"], row["tokens"] = f"answer {place}.", 17 if place == 5 else 3

    rewrite(experiment.files.scores(CELL, "standard", 0), SCORES, judge)
    rewrite(experiment.files.samples(CELL, "standard", 0), SAMPLES, write)
    text = Tree(page_of(experiment)).sections["samples"]
    linear = text[text.index(f"linear, by {CELL}") : text.index(f"linear, by {GRADIENT}")]
    assert re.findall(r"answer (\d+)\.", linear) == ["9", "0", "5"]
    # Eight samples a problem: number 9 is the second problem's second one.
    assert "number 1, counted from 0" in linear
    assert "1 of 8 samples are right" in linear
    assert "17 tokens" in linear
    gradient = text[text.index(f"linear, by {GRADIENT}") : text.index(f"multiply, by {CELL}")]
    assert "answer" not in gradient.partition("Right")[2].replace("Accepted answer", "")
    for family in experiment.benchmarks_of("standard"):
        assert text.count(ABOUT[family]) == 2  # once for each of the two policies


def test_model_output_stays_text(experiment: Experiment) -> None:
    rewrite(
        experiment.files.samples(CELL, "standard", 0),
        SAMPLES,
        lambda _, row: row.update(text=HOSTILE),
    )
    page = page_of(experiment)
    assert "<script" not in page
    assert not re.search(r"<[^>]*(//evil|onerror)", page)
    samples = Tree(page).sections["samples"]
    assert "</pre><script>alert('x')</script>" in samples
    assert "\u241b[31m\u27e8U+202E\u27e9txt" in samples
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("two\nlines", "two\nlines"),
        ("a\tb\rc\0", "a\u2409b\u240dc\u2400"),
        ("\x7f\x9f", "\u27e8U+007F\u27e9\u27e8U+009F\u27e9"),
        ("a\u200bb\ufeff", "a\u27e8U+200B\u27e9b\u27e8U+FEFF\u27e9"),
        ("\u2028\u2066\U000e0041", "\u27e8U+2028\u27e9\u27e8U+2066\u27e9\u27e8U+E0041\u27e9"),
        ("x\u00b2 \u2264 \u4e2d \U0001f600", "x\u00b2 \u2264 \u4e2d \U0001f600"),
    ],
)
def test_invisible_characters_are_named(written: str, shown: str) -> None:
    assert visible(written) == shown


def test_the_same_files_give_the_same_page_on_any_host(experiment: Experiment) -> None:
    before = page_of(experiment)
    assert page_of(experiment) == before
    for place in Path("results").rglob("*.provenance.json"):
        note = json.loads(place.read_text())
        note |= {"host": "elsewhere", "written": "2000-01-01T00:00:00Z", "wall_seconds": 1e6}
        note |= {"git_commit": "0" * 40, "command": ["rspo", "other"], "packages": {}}
        place.write_text(json.dumps(note))
    assert page_of(experiment) == before


def test_an_unfinished_run_names_what_is_missing_and_writes_nothing(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment.files.scores(CELL, "standard", 0)
    path.unlink()
    assert main(["report"]) == 2
    assert f"{path}: no such file; `rspo score {CELL} standard" in capsys.readouterr().err
    assert not REPORT.exists()


def test_a_number_that_is_gone_fails_with_the_place_in_the_template(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment.files.reports / "claims.csv"
    write_csv(path, read_csv(path).drop(columns="title"))
    adopt(path)
    assert main(["report"]) == 2
    error = capsys.readouterr().err.strip()
    found = re.fullmatch(r".*rspo/report/report.html.jinja, line (\d+): (.*)", error)
    assert found is not None, error
    assert "title" in found[2]
    template = Path(report_package.__file__).parent / "report.html.jinja"
    assert "title" in template.read_text().splitlines()[int(found[1]) - 1]
    assert not REPORT.exists()


def test_training_logs_are_complete_and_their_warnings_shown(experiment: Experiment) -> None:
    log = experiment.files.training_log(CELL)
    records = [json.loads(line) for line in log.open()]
    for record, difference in zip(records, [0.002, 0.2] * 3, strict=True):
        record["sampler"] = {"difference": difference}
    write_json_lines(log, records)
    adopt(log)
    warning = f"may not have the actor's weights: {CELL} (3 steps, first 2)."
    assert warning in Tree(page_of(experiment)).sections["setup"]
    write_json_lines(log, records[:-1])
    adopt(log)
    with pytest.raises(InputError, match=f"{log}: has 5 rows, expected one for each step 1 to 6"):
        write_report(experiment, force=True)


def test_a_report_does_not_say_no_while_every_update_is_clipped(experiment: Experiment) -> None:
    row = "Do training logs warn?"
    assert f"{row}No." in Tree(page_of(experiment)).sections["setup"]
    log = experiment.files.training_log(CELL)
    records = [json.loads(line) for line in log.open()]
    write_json_lines(log, [record | {"gradient_clipped": 1.0} for record in records])
    adopt(log)
    setup = Tree(page_of(experiment)).sections["setup"]
    assert f"{row}training.optimizer.gradient_clip scaled the gradients" in setup
    assert f"changes the algorithm: {CELL} (100%)." in setup


# --- the Markdown page of the results ------------------------------------------------------------


@pytest.fixture
def results(made: Experiment, tmp_path: Path) -> Path:
    write_results(made, tmp_path / "docs" / "results.md")
    return tmp_path / "docs" / "results.md"


def test_the_results_have_every_figure_and_link_to_files_beside_them(
    made: Experiment, results: Path
) -> None:
    links = set(re.findall(r"\]\(([^)]+)\)", results.read_text()))
    assert {f"results/{name}.png" for name in in_all(made)} <= links
    for link in links - {"evidence/results.parquet"}:
        assert (results.parent / link).is_file()
    copied = {path for path, _ in results_inputs(made) if path.parent.name == "reports"}
    assert {path.name for path in results.with_suffix("").iterdir()} == {p.name for p in copied}
    for original in copied:
        copy = results.parent / "results" / original.name
        if original.suffix == ".csv":
            pd.testing.assert_frame_equal(pd.read_csv(copy), pd.read_csv(original), rtol=1e-11)
        else:
            assert copy.read_bytes() == original.read_bytes()


def test_the_time_of_the_results_is_that_of_training_sampling_and_verification(
    experiment: Experiment,
) -> None:
    """Curves are made once more with every page, in one process."""
    seconds = {"train": 1000.0, "sample": 200.0, "score": 30.0, "curves": 4.0}
    rows = [
        {"policy": CELL, "step": step, "wall_seconds": 0, "cpu_seconds": time, "gpu_seconds": 0}
        for step, time in seconds.items()
    ]
    write_csv(experiment.files.table("cost"), pd.DataFrame(rows))
    assert used_by_models(experiment)["cpu_seconds"] == 1230


def test_the_results_have_the_verdict_of_every_claim(made: Experiment, results: Path) -> None:
    for claim in rows_of(made.files.reports / "claims.csv"):
        verdict = claim["verdict"].partition(":")[0]
        cells = f"| {claim['claim']} | {table_cell(claim['title'])} | {verdict} |"
        assert f"\n{cells}" in results.read_text()
