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
rule first:
    output: "first"
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


def run(folder: Path, snakefile: str) -> "subprocess.CompletedProcess[str]":
    (folder / "Snakefile").write_text(snakefile)
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=1", "last"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("rules", [THIEF, BACKGROUND], ids=["a later job", "a process"])
def test_a_run_fails_if_a_result_was_removed_meanwhile(tmp_path: Path, rules: str) -> None:
    done = run(tmp_path, CHECK + rules)
    assert done.returncode == 1
    assert "\nfirst is missing at the end of the run\n" in done.stderr
    assert (tmp_path / "last").exists()
    (tmp_path / "last").unlink()
    (tmp_path / "first").unlink(missing_ok=True)
    assert run(tmp_path, rules).returncode == 0  # Snakemake alone does not look


def test_temporary_outputs_are_not_missed(tmp_path: Path) -> None:
    done = run(tmp_path, CHECK + TEMPORARY)
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
