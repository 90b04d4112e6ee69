"""README.md: its result is that of the published tables, and its commands and links exist."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from rspo import cli
from tests.support import ROOT
from tests.support.snakemake_project import make_project, snakemake

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
LEVEL = 0.05


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def listed(words: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def with_half_width(row: dict[str, str]) -> str:
    """An estimate in percentage points, and half of its 95 % interval."""
    estimate, low, high = (float(row[key]) for key in ("estimate", "low", "high"))
    return f"{estimate:.1f} ± {(high - low) / 2:.1f}"


def result() -> str:
    """README's sentence about the published tables.

    RSPO ties with policy gradient at a k where the difference is not significant. Its advantage is
    smaller on shifted problems if C7 does not transfer, and not significant if no interval there is
    above 0.
    """
    points = table("fig_difference.csv")
    of = {
        name: [row for row in points if row["against"] == name]
        for name in ("baseline", "policy gradient")
    }
    values = {name: listed([with_half_width(row) for row in rows]) for name, rows in of.items()}
    ks = [row["k"] for row in of["baseline"]]
    assert [row["k"] for row in of["policy gradient"]] == ks
    (seeds,) = {row["seeds"] for row in points}
    open_at = {
        name: [row["k"] for row in rows if float(row["p_adjusted"]) >= LEVEL]
        for name, rows in of.items()
    }
    assert not open_at["baseline"], "README says that RSPO is above the baseline"
    resolved = [row for row in points if row["k"] not in open_at[row["against"]]]
    assert all(float(row["estimate"]) > 0 for row in resolved), "README says that RSPO is above"
    ends = []
    if ties := open_at["policy gradient"]:
        ends.append(f"at k = {listed(ties)} RSPO ties with policy gradient")
    shifted = {
        row["id"]: float(row["low"])
        for row in table("claim_comparisons.csv")
        if row["claim"] == "C7" and row["family"] != "transfer"
    }
    there = [shifted[f"C7/RSPO k={k}/Baseline k={k}/pass_at_k/{k}/pooled"] for k in ks]
    (transfer,) = {row["verdict"] for row in table("claims.csv") if row["claim"] == "C7"}
    if transfer == "does not transfer" and not any(low > 0 for low in there):
        ends.append(
            "on shifted problems the advantage over the baseline is smaller, and not significant"
        )
    assert ends, "README's sentence says where the result ends"
    return (
        f"Over {seeds} training seeds on one base model, RSPO's Pass@k at k = {listed(ks)} is "
        f"{values['baseline']} percentage points above the baseline's, and "
        f"{values['policy gradient']} above policy gradient's; {', and '.join(ends)}."
    )


def test_the_result_is_that_of_the_published_tables() -> None:
    (said,) = re.findall(r"\*\*(Over .*?)\*\*", README, flags=re.DOTALL)
    assert " ".join(said.split()) == result(), f"README.md must say:\n**{result()}**"


def commands(program: str) -> list[list[str]]:
    """The commands of README's blocks and running text, as words without the program."""
    blocks = re.findall(rf"^ {{4}}({program} .*)", README, flags=re.MULTILINE)
    inline = re.findall(rf"`({program} [^`]*)`", README)
    return [shlex.split(" ".join(line.split()), comments=True)[1:] for line in blocks + inline]


def test_every_rspo_command_exists_with_its_options() -> None:
    found = commands("rspo")
    assert len(found) >= 7
    for words in found:
        cli._parse(words)  # does not run it


def test_every_target_of_make_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    found = commands("make")
    assert len(found) >= 4
    assert {target for target, *_ in found} <= set(targets)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize(
    "words", [words for words in commands("snakemake") if words[:2] != ["all", "--profile"]]
)
def test_every_snakemake_command_plans_its_jobs(project: Path, words: list[str]) -> None:
    done = snakemake(project, "-n", *(word for word in words if word != "-n"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_short_and_its_links_exist() -> None:
    assert len(README.splitlines()) <= 130
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
