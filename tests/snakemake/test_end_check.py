"""The check at the end of a run, where Snakemake itself reports success."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.snakemake_project import snakemake

CHECK = """\
from rspo.snakemake.end_check import require_results
onsuccess:
    require_results(workflow.dag)
"""
THIEF = """\
from pathlib import Path
from rspo.pipeline.task import Task
rule first:
    output: "first"
    params: settings=lambda wildcards: Task((Path("first"),), {}).settings_hash
    shell: "touch {output}"
rule last:
    input: "first"
    output: "last"
    shell: "rm {input}; touch {output}"
"""
BACKGROUND = """\
rule first:
    output: "first", "second"
    shell: "touch {output}; (sleep 0.5; rm first) > /dev/null 2>&1 &"
rule last:
    input: "second"
    output: "last"
    shell: "sleep 2; touch {output}"
"""
TEMPORARY = THIEF.replace('output: "first"', 'output: temp("first")')
PIPE = """\
rule first:
    output: pipe("first")
    shell: "echo text > {output}"
rule last:
    input: "first"
    output: "last"
    shell: "cat {input} > {output}"
"""
SERVICE = """\
rule first:
    output: service("first")
    shell: "touch {output}; sleep 30; rm {output}"
rule last:
    input: "first"
    output: "last"
    shell: "touch {output}"
"""
OF_A_USER = """\
rule first:
    output: "first"
    shell: "touch {output}"
rule last:
    input: "first"
    output: "last"
    shell: "rm {input}; touch {output}"
"""


def run(folder: Path, snakefile: str, *targets: str) -> "subprocess.CompletedProcess[str]":
    (folder / "Snakefile").write_text(snakefile)
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=2", *targets],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("rules", "targets"),
    [(THIEF, ["last"]), (OF_A_USER, ["first", "last"]), (BACKGROUND, ["first", "last"])],
    ids=["a later job", "a later job, a target", "a process, a target"],
)
def test_a_run_fails_if_a_result_was_removed_meanwhile(
    tmp_path: Path, rules: str, targets: list[str]
) -> None:
    done = run(tmp_path, CHECK + rules, *targets)
    assert done.returncode == 1
    assert "\nfirst is missing at the end of the run\n" in done.stderr
    assert (tmp_path / "last").exists()
    (tmp_path / "last").unlink()
    (tmp_path / "first").unlink(missing_ok=True)
    assert run(tmp_path, rules, *targets).returncode == 0  # Snakemake alone does not look


@pytest.mark.parametrize(
    "rules",
    [TEMPORARY, PIPE, SERVICE, OF_A_USER],
    ids=["temporary", "pipe", "service", "without a step"],
)
def test_outputs_that_a_run_need_not_leave_are_not_missed(tmp_path: Path, rules: str) -> None:
    done = run(tmp_path, CHECK + rules, "last")
    assert done.returncode == 0, done.stderr


THIEF_OF_THE_PROJECT = """
include: "workflow/Snakefile"
rule thief:
    input: "results/tiny/problems/linear.parquet"
    output: "stolen"
    shell: "{command}; touch {{output}}"
"""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("rm {input}", "results/tiny/problems/linear.parquet is missing at the end of the run"),
        (
            "truncate -s 10 {input}",
            "results/tiny/problems/linear.parquet was damaged or changed after it was written",
        ),
    ],
)
def test_the_workflow_has_this_check(project: Path, command: str, message: str) -> None:
    Path("Snakefile").write_text(THIEF_OF_THE_PROJECT.format(command=command))
    Path("results/tiny/problems/linear.parquet").unlink()
    done = snakemake(project, "stolen")
    assert done.returncode == 1
    assert done.stderr.count(f"error: {message}\n") == 1, done.stderr


THIEF_OF_MODULES = """
rule thief:
    input: "trial/problems/linear.parquet"
    output: "stolen"
    shell: "rm {input}; touch {output}"
"""


MODULE = """
module paper:
    snakefile: "workflow/Snakefile"
    config: {"results": "trial"}
use rule * from paper as paper_*
"""
ONSUCCESS = 'onsuccess:\n    print("ended by its owner")\n'


@pytest.mark.parametrize("own", ["", ONSUCCESS], ids=["none", "of the Snakefile"])
def test_a_module_has_this_check(project: Path, own: str) -> None:
    """Snakemake runs only the `onsuccess` of the Snakefile that uses it."""
    Path("Snakefile").write_text(MODULE + THIEF_OF_MODULES + own)
    done = snakemake(project, "stolen")
    assert done.returncode == 1
    message = "error: trial/problems/linear.parquet is missing at the end of the run\n"
    assert done.stderr.count(message) == 1, done.stderr


def test_touch_accepts_a_copy_that_is_not_complete(project: Path) -> None:
    done = snakemake(project, "all", "--touch")
    assert done.returncode == 0, done.stderr
