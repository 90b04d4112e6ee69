"""The workflow as a module of another Snakefile, and the commands that Snakemake prints."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.config.merge import parse_overrides
from rspo.core.files import digest
from rspo.core.locks import exclusive_lock
from rspo.pipeline.provenance import read_provenance
from tests.support import ROOT
from tests.support.snakemake_project import PROGRAMS, jobs, make_project, setting, snakemake

TABLES = ["results/tiny/problems/linear.parquet", "trial/problems/linear.parquet"]
PROBLEMS = "data.suites.standard.linear.generated.problems"
# A Snakefile with two modules, and what may stand before and after them.
TWO_MODULES = """\
{before}
module tiny:
    snakefile: "Snakefile"
    config: {tiny}
use rule * from tiny as tiny_*

module trial:
    snakefile: "Snakefile"
    config: {trial}
use rule * from trial as trial_*
{after}
"""
TINY = {"scale": "tiny", "set": f"{PROBLEMS}=6"}
TRIAL = {"scale": "tiny", "set": f"{PROBLEMS}=3", "results": "trial"}
ONSTART = 'onstart:\n    print("started by its owner")'


def write_modules(folder: Path, before: str = "", after: str = "", **trial: object) -> list[str]:
    """Write the Snakefile; returns the words with which `snakemake` uses it."""
    text = TWO_MODULES.format(before=before, after=after, tiny=TINY, trial=TRIAL | trial)
    (folder / "two.smk").write_text(text)
    return ["--snakefile", "two.smk"]


def of_problems(number: int) -> dict[str, object]:
    return parse_overrides([f"{PROBLEMS}={number}"])


def command_of_linear(log: str, **given: object) -> str:
    experiment = f"RSPO_EXPERIMENT='{json.dumps(given)}'"
    return f"{experiment} rspo prepare linear  2>&1 | tee -ip {log}/prepare/linear.log"


def commands(text: str) -> list[str]:
    """The commands of rules that Snakemake printed."""
    return re.findall(r"^(?:Shell command: *)?((?:RSPO_EXPERIMENT=.*)?rspo .*)$", text, re.M)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_two_modules_have_their_own_experiments_and_folders(project: Path) -> None:
    words = write_modules(project)
    done = snakemake(project, *words, "-n", "-p", *TABLES)
    assert jobs(done) == {"tiny_prepare": 1, "trial_prepare": 1, "total": 2}
    assert {*commands(done.stdout + done.stderr)} == {
        command_of_linear(log="results/tiny/logs", set=of_problems(6)),
        command_of_linear(log="trial/logs", set=of_problems(3), results="trial"),
    }

    done = snakemake(project, *words, *TABLES)
    assert done.returncode == 0, done.stderr
    notes = [read_provenance(project / table) for table in TABLES]
    assert [note["settings"]["generated"]["problems"] for note in notes] == [6, 3]
    again = snakemake(project, *words, *TABLES)
    assert "Nothing to be done" in again.stdout + again.stderr


def test_two_scales_and_all_of_their_jobs_can_be_planned(project: Path) -> None:
    words = write_modules(project, scale="pretrained", set="")
    plan = jobs(snakemake(project, *words, "-n", "tiny_all", "trial_data"))
    assert plan["tiny_train"] == len(Experiment.load("tiny", root=ROOT).cells)
    assert plan["trial_prepare"] == len(Experiment.load("pretrained", root=ROOT).data_sets)


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), (ONSTART, ""), ("", ONSTART)], ids=["none", "before", "after"]
)
def test_each_module_has_the_checks_of_a_start(project: Path, before: str, after: str) -> None:
    """Whether the Snakefile that uses it has an `onstart` or not; Snakemake runs one of them."""
    words = write_modules(project, before, after)
    with exclusive_lock(project / "trial", waits=False):
        done = snakemake(project, *words, *TABLES)
    assert done.returncode == 1
    assert "trial: process" in done.stderr
    assert not (project / "trial" / "problems").exists()
    done = snakemake(project, *words, *TABLES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started by its owner") == bool(before + after)
    (project / TABLES[1]).write_bytes(b"damaged")
    done = snakemake(project, *words, *TABLES)
    assert f"leaves a result as it is: {TABLES[1]} was damaged" in done.stderr


def test_a_prefix_of_the_files_of_a_module_is_refused(project: Path) -> None:
    """The commands of its rules would write to the folder without it."""
    words = write_modules(project)
    file = project / "two.smk"
    file.write_text(file.read_text().replace('"Snakefile"', '"Snakefile"\n    prefix: "mine"', 1))
    done = snakemake(project, *words, "-n", "tiny_data")
    assert done.returncode == 1
    assert "no `prefix` for its files" in done.stdout + done.stderr


def test_a_printed_command_makes_the_same_file_in_a_shell(project: Path) -> None:
    extra = {"verl": {"overrides": {"a key": {"b": ["it's", "$HOME {x}", 1, None]}}}}
    table = TABLES[1]
    words = [table, "--config", "results=trial", setting(extra), f"set={PROBLEMS}=3"]
    done = snakemake(project, "-p", *words)
    assert done.returncode == 0, done.stderr
    made = digest(project / table)
    (command,) = commands(done.stdout + done.stderr)
    assert "$HOME {x}" in command
    (project / table).unlink()
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}  # as if activated
    subprocess.run(["sh", "-c", command], cwd=project, env=environment, check=True)
    assert digest(project / table) == made
    assert read_provenance(project / table)["settings"]["generated"]["problems"] == 3


def test_snakemakes_own_report_shows_figures_and_claims(project: Path) -> None:
    figure, claims = "reports/fig_disjoint.pdf", "reports/claims.csv"
    assert snakemake(project, figure).returncode == 0
    for name in ("claims", "claim_comparisons"):
        (project / "reports" / f"{name}.csv").write_text("claim,verdict\nC1,as claimed\n")
    done = snakemake(project, figure, claims, "--report", "page.html")
    assert done.returncode == 0, done.stderr
    page = (project / "page.html").read_text()
    assert "risk-seeking policy optimization" in page  # workflow/report/workflow.rst
    assert "The probability that the maximum of three dice is 4" in page  # the caption
    assert "The CSV file has every number of the picture." in page
    assert "each row is a claim and its verdict" in page
    for name in ("fig_disjoint.png", "fig_disjoint.csv", "claims.csv", "claim_comparisons.csv"):
        assert f'"name": "{name}"' in page
