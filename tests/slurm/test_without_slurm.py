"""`snakemake --profile slurm all`, as typed after `make setup`, with and without SLURM."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.snakemake_project import make_project

# Snakemake in an environment without some packages.
SNAKEMAKE = """\
import sys
from rspo.snakemake import preflight
hidden = sys.argv[1].split(",")
find_spec = preflight.find_spec
preflight.find_spec = lambda name: None if name in hidden else find_spec(name)
sys.argv = ["snakemake", *sys.argv[2:]]
from snakemake.cli import main
main()
"""
BASE = "verl,vllm"  # what `make setup` does not install
NAMES_SETUP = (
    "error: engine = 'verl' needs the package verl: `make setup-verl` installs it, "
    "`make setup-gpu` on a machine with GPUs"
)
NOT_INSTALLED = "SLURM is not installed here (no command squeue): use --profile slurm on a machine"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "project")
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH without commands of SLURM."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "bash", "which", "env", "git"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return folder


def errors_of(project: Path, programs: Path, *words: str, hidden: str = BASE) -> list[str]:
    """The lines of `snakemake WORDS` but for those with profiles and progress."""
    done = subprocess.run(
        [sys.executable, "-c", SNAKEMAKE, hidden, *words],
        cwd=project,
        env=os.environ | {"PATH": str(programs), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    output = done.stdout + done.stderr
    assert (done.returncode == 0) == ("error: " not in output), output
    assert "Traceback" not in output
    assert "usage:" not in output
    usual = re.compile("Using (profiles|shell)|Building DAG|SLURM run ID")
    return [line for line in output.splitlines() if not usual.match(line)]


def command(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


@pytest.mark.promise("snakemake --profile slurm all")
def test_without_verl_the_line_names_make_setup_verl(
    project: Path, programs: Path, promised: list[str]
) -> None:
    (line,) = errors_of(project, programs, *promised)
    assert line.startswith(f"{NAMES_SETUP}; {NOT_INSTALLED}")


def test_without_slurm_it_is_one_line(project: Path, programs: Path) -> None:
    (line,) = errors_of(project, programs, "--profile", "slurm", "all", hidden="")
    assert line.startswith(f"error: {NOT_INSTALLED}")


def test_a_slurm_that_does_not_answer_is_one_line(project: Path, programs: Path) -> None:
    command(programs, "squeue", "echo 'squeue: fatal: no configuration' >&2; echo more >&2; exit 1")
    (line,) = errors_of(project, programs, "--profile", "slurm", "all", hidden="")
    assert line == "error: SLURM does not answer (squeue: fatal: no configuration more)"


def test_with_slurm_the_line_names_make_setup_verl(project: Path, programs: Path) -> None:
    for name in ("squeue", "sacct", "sinfo", "scontrol", "sbatch"):
        command(programs, name, "exit 0")
    assert errors_of(project, programs, "--profile", "slurm", "all") == [NAMES_SETUP]


def test_an_answer_that_fails_later_is_one_line(project: Path, programs: Path) -> None:
    """When the executor asks, after the Snakefile was read."""
    answers_once = "test ! -e answered || exit 1; : > answered"
    command(programs, "squeue", answers_once)
    (line,) = errors_of(project, programs, "--profile", "slurm", "all")
    assert line.startswith("error: SLURM does not answer (squeue: ")


def test_a_dry_run_needs_neither(project: Path, programs: Path) -> None:
    lines = errors_of(project, programs, "-n", "--profile", "slurm", "all")
    assert any(re.match(r"train +25$", line) for line in lines)
