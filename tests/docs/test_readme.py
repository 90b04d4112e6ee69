"""README.md: its result is that of the published tables, and its commands and links exist."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from scipy import stats

from rspo import cli
from tests.support import ROOT
from tests.support.snakemake_project import make_project, snakemake

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
LEVEL = 0.05


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which nothing has run."""
    return make_project(tmp_path_factory.mktemp("project"))


def p_within_two_points(row: dict[str, str]) -> float:
    """Of two one-sided tests, whose larger p is that on the side of the estimate."""
    estimate, error, degrees = (float(row[key]) for key in ("estimate", "error", "degrees"))
    return float(stats.t.sf((0.02 - abs(estimate)) / error, degrees))


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.promise(
    "Over 5 training seeds, on one base model and at one learning rate, RSPO's Pass@k"
)
@pytest.mark.promise(
    "At k = 2 the latter is a tie within 2 points; on problems with larger numbers the advantage"
)
@pytest.mark.promise("It costs Pass@1:")
@pytest.mark.promise("At Pass@16 this policy gradient,")
def test_the_result_is_that_of_the_published_tables() -> None:
    """Estimates in percentage points, each with half of its 95 % interval."""
    (said,) = re.findall(r"\*\*(Over .*?)\*\*", " ".join(README.split()))
    points, comparisons = table("fig_difference.csv"), table("claim_comparisons.csv")
    expected = []
    for row in sorted(points, key=lambda row: row["against"]):  # the baseline comes first
        estimate, low, high = (float(row[key]) for key in ("estimate", "low", "high"))
        expected.append((f"{estimate:.1f}", f"{(high - low) / 2:.1f}"))
    assert re.findall(r"([\d.]+) ± ([\d.]+)", said) == expected
    assert f"Over {points[0]['seeds']} training seeds" in said
    ties = [row for row in points if float(row["p_adjusted"]) >= LEVEL]
    assert [(row["against"], row["k"]) for row in ties] == [("policy gradient", "2")]
    assert "At k = 2 the latter is a tie within 2 points" in said
    (tie,) = (row for row in comparisons if row["id"] == "C3/RSPO k=2/PG/pass_at_k/2/pooled")
    # Six are tested, so Bonferroni's bound of Holm's p.
    assert len(points) * p_within_two_points(tie) < LEVEL
    (transfer,) = (row["verdict"] for row in table("claims.csv") if row["claim"] == "C7")
    assert (transfer == "does not transfer") == ("on problems with larger numbers" in said)
    shifted = {row["id"]: row for row in comparisons if row["claim"] == "C7"}
    there = [shifted[f"C7/RSPO k={k}/Baseline k={k}/pass_at_k/{k}/pooled"] for k in (2, 4, 8)]
    there += [shifted[f"C7/RSPO k={k}/PG/pass_at_k/{k}/pooled"] for k in (2, 4, 8)]
    assert not any(float(row["low"]) > 0 for row in there)  # "neither advantage is significant"
    rows = {(row["benchmark"], row["method"], row["k"]): row for row in table("fig_main.csv")}
    named = [("RSPO k=8", "1"), ("PG", "1"), ("PG", "16"), ("Base", "16"), ("RSPO k=8", "16")]
    rates = [rows["pooled", *one]["estimate"] for one in named]
    assert re.findall(r"([\d.]+) %", said) == [f"{float(rate):.1f}" for rate in rates]
    assert float(rows["pooled", "Base", "16"]["difference_low"]) > 0  # "is below", to PG


@pytest.mark.promise(
    "eight other published objectives are [within 2 points of RSPO](docs/studies/peers.md)"
)
def test_as_many_other_objectives_are_equivalent_as_it_says() -> None:
    """By two one-sided tests, each at its rate that validation chooses, without RSPO's own."""
    with (ROOT / "docs" / "studies" / "peers.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"].endswith("RSPO, Pass@4")]
    near = [row["method_a"] for row in rows if p_within_two_points(row) < LEVEL]
    assert "RSPO plug-in k=4" in near
    assert len(near) - 1 == 8
    assert "eight other published objectives are [within 2 points of RSPO]" in " ".join(
        README.split()
    )


def commands(program: str) -> list[list[str]]:
    """The commands of README's blocks and running text, as words without the program."""
    blocks = re.findall(rf"^ {{4}}({program} .*)", README, flags=re.MULTILINE)
    inline = re.findall(rf"`({program} [^`]*)`", README)
    return [shlex.split(" ".join(line.split()), comments=True)[1:] for line in blocks + inline]


@pytest.mark.promise("No training of any model has finished on a GPU yet")
def test_no_published_result_used_a_gpu() -> None:
    pages = [page.read_text() for page in ROOT.glob("docs/**/*.md")]
    assert any("| Processor time |" in page for page in pages)
    assert not any("| GPU time |" in page for page in pages)
    what_ran = (ROOT / "docs" / "verl.md").read_text().partition("### On an H100\n")[2]
    assert "the training ended in its first step" in " ".join(what_ran.split())


def test_every_rspo_command_exists_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands("rspo")
    assert len(found) >= 7
    for words in found:
        cli._parse(words)  # does not run it


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
