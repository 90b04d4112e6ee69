"""README.md: its result is that of the published tables, and its commands and links exist."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from rspo.analysis.evidence import Evidence
from rspo.cli.run import parse
from rspo.config.experiment import Experiment
from rspo.report.page import BEGIN, END, write_readme
from rspo.report.text import MINUS
from tests.support import ROOT
from tests.support.snakemake_project import make_project, snakemake

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
# The rows of the table of results, and the methods of fig_grpo.csv.
KS = ("1", "2", "4", "8", "16")
METHODS = {
    "nothing: the base model": "Base",
    "policy gradient (PG)": "PG",
    "GRPO": "GRPO",
    "MaxRL, not centred": "MaxRL, not centred",
    "the paper's baseline, k = 4": "Baseline k=4",
    "RSPO, k = 4": "RSPO k=4",
    "RSPO, k = 8": "RSPO k=8",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which nothing has run."""
    return make_project(tmp_path_factory.mktemp("project"))


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.promise("In percentage points of Pass@k, RSPO")
def test_the_result_is_that_of_the_published_tables() -> None:
    """The sentence is that of docs/results.md, and the table has the levels of two figures."""
    (said,) = re.findall(r"^- \*\*(In percentage points .*?)\*\*", README, flags=re.MULTILINE)
    assert f"**{said}**" in (ROOT / "docs" / "results.md").read_text().splitlines()
    every_row = table("fig_grpo.csv") + table("fig_without_k.csv")
    rows = {(row["benchmark"], row["method"], row["k"]): row for row in every_row}
    cells = r" \| ".join([r"([\d.]+)"] * len(KS))
    found = re.findall(rf"^\| (.+?) \| {cells} \|$", README, re.MULTILINE)
    assert [name for name, *_ in found] == [*METHODS]
    for name, *levels in found:
        expected = [rows["pooled", METHODS[name], k]["estimate"] for k in KS]
        assert levels == [f"{float(level):.1f}" for level in expected]
    row = rows["pooled", "RSPO k=4", "4"]
    conditions = f"Means of {row['seeds']} training seeds, each from a base model of its own, over"
    conditions += f" {row['problems']} test problems"
    assert f"{conditions} with {row['samples']} samples each" in " ".join(README.split())


def test_what_does_not_transfer_is_said() -> None:
    """With the differences to the baseline and to policy gradient at each k."""
    (verdict,) = (row["verdict"] for row in table("claims.csv") if row["claim"] == "C7")
    (said,) = re.findall(
        r"On problems with larger numbers than in training, (.*?)\.$", README, flags=re.MULTILINE
    )
    assert ("does not transfer" in said) == (verdict == "does not transfer")
    values = {}
    for row in table("claim_comparisons.csv"):
        is_own = row["method_a"] == f"RSPO k={row['k']}" and row["where"] == "pooled"
        if row["claim"] == "C7" and not row["family"] and is_own:
            value = f"{100 * float(row['estimate']):+.1f}".replace("-", MINUS)
            values[row["method_b"].partition(" k=")[0], row["k"]] = value
    names = {"Baseline": "the baseline", "PG": "policy gradient"}
    for other, k in [(other, k) for other in names for k in ("2", "4", "8")]:
        # What is said of one method ends at a semicolon or a colon before the next one is named.
        parts = [part for part in said.split(";") if names[other] in part.split("advantage")[0]]
        value = re.escape(values[other, k])
        assert any(re.search(rf"{value}\s±\s[\d.]+ \(k\s=\s{k}\)", part) for part in parts)


@pytest.mark.promise("With each method at the learning rate of three")
def test_the_differences_at_own_rates_are_those_of_the_published_study() -> None:
    (said,) = re.findall(r"\*\*(With each method at the learning rate .*?)\*\*", README)
    with (ROOT / "docs" / "studies" / "own_rates.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"].endswith(", own rates")]
    assert len(rows) == 9
    for row in rows:
        value = f"{abs(100 * float(row['estimate'])):.1f}"
        assert re.search(rf"{re.escape(value)}\s±\s[\d.]+ \(k\s=\s{row['k']}\)", said)


@pytest.mark.promise("Training for the k of evaluation")
def test_the_verdicts_on_claims_of_our_own_are_said() -> None:
    rows = [row for row in table("claim_comparisons.csv") if row["decides"] == "yes"]
    for claim in ("A1", "A2"):
        for row in (row for row in rows if row["claim"] == claim):
            value = f"{100 * float(row['estimate']):+.1f}".replace("-", MINUS)
            value = "0.0" if value in ("+0.0", f"{MINUS}0.0") else value
            assert re.search(rf"{re.escape(value)}\s±\s[\d.]+ \(k\s=\s{row['k']}[,)]", README)


def test_the_results_are_what_the_template_makes_of_the_tables(tmp_path: Path) -> None:
    """`snakemake docs` writes them; a README without the comments stays as it is."""
    published = Evidence.read(ROOT / "docs" / "evidence" / "results.parquet")
    experiment = Experiment.load(published.scale, published.overrides, root=ROOT)
    before, begin, rest = README.partition(BEGIN)
    _, end, after = rest.partition(END)
    copy = tmp_path / "README.md"
    copy.write_text(f"{before}{begin}\nold\n{end}{after}")
    write_readme(experiment, copy, RESULTS)
    assert copy.read_text() == README
    copy.write_text("none")
    write_readme(experiment, copy, RESULTS)
    assert copy.read_text() == "none"


@pytest.mark.promise('print(diagnose("maxpo", k=3, n=4))')
def test_its_first_program_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    program = re.search(r"\n\n((?: {4}.*\n|\n)+)", README.partition("KL penalty.")[2])
    assert program is not None
    lines = re.sub(r"^ {4}", "", program[1], flags=re.MULTILINE)
    exec(lines, {})
    printed = capsys.readouterr().out
    weights, _, diagnosis = printed.partition("weights:")
    (said,) = re.findall(r"# (\[\[.*\]\])$", lines, flags=re.MULTILINE)
    assert re.findall(r"[\d.]+", weights) == ["0.", "0.75", "0.", "0.", "0.", "0.", "0.", "0."]
    assert re.findall(r"[\d.]+", said) == re.findall(r"[\d.]+", weights)
    assert "Pass@3" in diagnosis


def test_the_first_screen_ends_before_the_start() -> None:
    visible = re.sub(r"^<!--.*-->\n", "", README.partition("## Start")[0], flags=re.MULTILINE)
    assert visible.count("\n") <= 40


def commands(program: str) -> list[list[str]]:
    """The commands of README's blocks and running text, as words without the program."""
    blocks = re.findall(rf"^ {{4}}({program} .*)", README, flags=re.MULTILINE)
    inline = re.findall(rf"`({program} [^`]*)`", README)
    return [shlex.split(" ".join(line.split()), comments=True)[1:] for line in blocks + inline]


@pytest.mark.promise("No training of verl has finished on a GPU yet")
def test_no_published_result_used_verl_on_a_gpu() -> None:
    trained = []
    for file in ROOT.glob("docs/evidence/*.parquet"):
        evidence = Evidence.read(file)
        for text in evidence.rows["provenance"].dropna():
            note = json.loads(text)
            if note.get("gpu_seconds"):
                trained.append(file.stem)
                assert note["settings"].get("engine", "local") == "local"
    assert set(trained) == {"pretrained"}
    what_ran = (ROOT / "docs" / "gpu.md").read_text().partition("### verl on an H200\n")[2]
    assert "it sampled step 3, and the time ended" in " ".join(what_ran.split())


def test_every_rspo_command_exists_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands("rspo")
    assert len(found) >= 7
    for words in found:
        parse(words)  # does not run it


def test_every_target_of_make_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    found = commands("make")
    assert len(found) >= 4
    assert {target for target, *_ in found} <= set(targets)


@pytest.mark.parametrize(
    "words", [words for words in commands("snakemake") if "--profile" not in words]
)
def test_every_snakemake_command_plans_its_jobs(project: Path, words: list[str]) -> None:
    done = snakemake(project, "-n", *(word for word in words if word != "-n"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_links_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
