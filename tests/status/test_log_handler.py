"""What a user of `snakemake` sees, with and without a terminal."""

import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, tiny_world
from tests.support.snakemake_project import PROGRAMS, snakemake
from tests.support.terminal import HIDE_CURSOR, SHOW_CURSOR, run_in_terminal

SNAKEMAKE = str(PROGRAMS / "snakemake")
CELL = "small--rspo-pass--k4--n16--s0"
SNAKEFILE = f"""
from pathlib import Path
from rspo.status.policies import suites_of_run
from snakemake.logging import logger
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
    experiment = tiny_world.load(Path())
    suites = suites_of_run(job.wildcards_dict for job in workflow.dag.jobs)
    logger.info("This run has policies.", extra={{"experiment": experiment, "suites": suites}})
"""
FAILING = "echo 'rspo: error: a: no such file' 2>&1 | tee {log}; exit 2"
WAITING = "touch at-work; sleep 300"


@pytest.fixture(autouse=True)
def the_snakefile_can_import_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def project(folder: Path, command: str) -> Path:
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    (folder / "Snakefile").write_text(SNAKEFILE.replace("COMMAND", command))
    tiny_world.load(folder)
    return folder


def check_errors(output: str) -> None:
    for text in (
        "printed by a job",
        "Error in rule last:",
        f"log: {CELL}.log",
        "reason: a: no such file",
        "1 of 3 jobs done, 0 of 1 policies trained, 0 evaluated",
    ):
        assert text in output
    assert "Select jobs to execute" not in output
    assert "Execute 1 jobs" not in output


def test_without_a_terminal_progress_is_lines_of_text(tmp_path: Path) -> None:
    folder = project(tmp_path, FAILING)
    done = snakemake(folder, "--cores=1")
    assert done.returncode == 1
    check_errors(done.stderr + done.stdout)
    assert "\x1b" not in done.stderr


def test_in_a_terminal_messages_of_jobs_stand_above_a_table(tmp_path: Path) -> None:
    status, output = run_in_terminal([SNAKEMAKE, "--cores=1"], project(tmp_path, FAILING))
    assert status == 1
    check_errors(output)
    assert output.rindex(HIDE_CURSOR) < output.rindex(SHOW_CURSOR)


def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path) -> None:
    folder = project(tmp_path, WAITING)
    status, output = run_in_terminal([SNAKEMAKE, "--cores=1"], folder, folder / "at-work")
    assert status != 0
    assert "Traceback" not in output
    assert output.rindex(HIDE_CURSOR) < output.rindex(SHOW_CURSOR)
    assert not (folder / "done").exists() or not list((folder / "done").iterdir())


@pytest.mark.parametrize(("quiet", "lists_jobs"), [([], False), (["--quiet", "host"], True)])
def test_a_dry_run_prints_the_plan(tmp_path: Path, quiet: list[str], lists_jobs: bool) -> None:
    done = snakemake(project(tmp_path, ""), "--dry-run", *quiet)
    assert done.returncode == 0, done.stderr
    assert "total        3" in done.stdout
    assert ("rule last:" in done.stdout) == lists_jobs
