"""README.md: its result is that of the published tables, and its commands and links exist."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rspo.cli.run import parse
from tests.support import ROOT
from tests.support.snakemake_project import make_project, snakemake

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
LEVEL = 0.05


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which nothing has run."""
    return make_project(tmp_path_factory.mktemp("project"))


def is_within_two_points(row: dict[str, str], tests: int) -> bool:
    """By two one-sided tests and Bonferroni's bound of Holm's p, of which one is always near 0.

    The critical value is that of Cochran and Cox.
    """
    keys = ("estimate", "error", "error_problems", "error_seeds", "degrees", "seeds")
    estimate, error, of_problems, of_seeds, degrees, seeds = (float(row[key]) for key in keys)
    t = stats.t.isf(LEVEL / tests, [degrees, seeds - 1])
    critical = np.average(t, weights=[of_problems**2, of_seeds**2])
    return bool((0.02 - abs(estimate)) / error > critical)


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
    assert is_within_two_points(tie, tests=len(points))
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
    "4 of 17 other published objectives are [significantly below RSPO](docs/studies/peers.md)"
)
def test_as_many_other_objectives_are_significantly_below_as_it_says() -> None:
    """Each at the rate that validation chooses; by Holm's method over all of them."""
    with (ROOT / "docs" / "studies" / "peers.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"].endswith("RSPO, Pass@4")]
    found = [row for row in rows if float(row["p_adjusted"]) < LEVEL]
    below = [row for row in found if float(row["estimate"]) < 0]
    said = f"{len(below)} of {len(rows)} other published objectives are [significantly below RSPO]"
    text = " ".join(README.split())
    assert said in text
    open_ones = [row for row in rows if row not in found and float(row["p_tie_adjusted"]) >= LEVEL]
    assert f"over 3 seeds, none is above, and {len(open_ones)} are not resolved" in text
    assert len(open_ones) + len(found) == len(rows)
    assert {row["seeds"] for row in rows} == {"3"}
    assert found == below


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
    what_ran = (ROOT / "docs" / "gpu.md").read_text().partition("### On an H100\n")[2]
    assert "the training ended in its first step" in " ".join(what_ran.split())


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
