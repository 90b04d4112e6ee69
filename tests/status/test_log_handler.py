"""What a user of `snakemake` sees."""

import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, tiny_world
from tests.support.snakemake_project import PROGRAMS, snakemake
from tests.support.terminal import run_in_terminal

SNAKEMAKE = str(PROGRAMS / "snakemake")
CELL = "small--rspo-pass--k4--n16--s0"
SNAKEFILE = f"""
from pathlib import Path
from rspo.snakemake.start import show_progress
from tests.support import tiny_world

rule all:
    input: "done/{CELL}"

rule good:
    output: "made"
    shell: "echo printed by a job; touch {{output}}"

rule last:
    input: "made"
    output: "done/{{cell}}"
    log: "{{cell}}.log"
    shell: "COMMAND"

onstart:
    show_progress(workflow, tiny_world.load(Path()))
"""
FAILING = "echo 'rspo: error: a: no such file' 2>&1 | tee {log}; exit 2"
# Without the trap, a shell that Ctrl-C reaches while `touch` ends goes on to the next command.
WAITING = "trap 'exit 130' INT; touch at-work; sleep 300"


@pytest.fixture(autouse=True)
def the_snakefile_can_import_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def project(folder: Path, command: str) -> Path:
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    (folder / "Snakefile").write_text(SNAKEFILE.replace("COMMAND", command))
    tiny_world.load(folder)
    return folder


def test_progress_and_errors_are_lines_of_text(tmp_path: Path) -> None:
    folder = project(tmp_path, FAILING)
    done = snakemake(folder, "--cores=1")
    assert done.returncode == 1
    output = done.stderr + done.stdout
    for text in (
        "printed by a job",
        "Error in rule last:",
        f"log: {CELL}.log",
        "reason: a: no such file",
        "1 of 3 jobs done",
    ):
        assert text in output
    assert "Select jobs to execute" not in output
    assert "Execute 1 jobs" not in output


def test_ctrl_c_leaves_no_traceback_and_no_half_written_file(tmp_path: Path) -> None:
    folder = project(tmp_path, WAITING)
    status, output = run_in_terminal([SNAKEMAKE, "--cores=1"], folder, folder / "at-work")
    assert status != 0
    assert "Traceback" not in output
    assert "1 of 3 jobs done" in output
    assert "Error in rule" not in output
    assert output.splitlines()[-1] == "The same command resumes."
    assert not (folder / "done").exists() or not list((folder / "done").iterdir())


@pytest.mark.parametrize(("quiet", "lists_jobs"), [([], False), (["--quiet", "host"], True)])
def test_a_dry_run_prints_the_plan(tmp_path: Path, quiet: list[str], lists_jobs: bool) -> None:
    done = snakemake(project(tmp_path, ""), "--dry-run", *quiet)
    assert done.returncode == 0, done.stderr
    assert "total        3" in done.stdout
    assert ("rule last:" in done.stdout) == lists_jobs
