"""Requests to stop inside a SLURM job, and SLURM's commands while it sends SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rspo.core import slurm_job as job
from tests.support import ROOT
from tests.support.snakemake_project import PROGRAMS

# A job in which SLURM signals only the first process, Snakemake, as it does with cgroups.
SNAKEFILE = """\
from rspo.slurm.snakemake_patches import forward_stop_requests

forward_stop_requests()
shell.prefix("set -euo pipefail; trap '' USR1; ")


rule stop:
    output: "made"
    shell: "{python} work.py"
"""
WORK = """\
import pathlib, signal, time
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
pathlib.Path("at-work").touch()
while not asked:
    time.sleep(0.05)
pathlib.Path("made").touch()
"""


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "7",
    }


def test_a_slurm_command_survives_a_sigterm_to_all_processes_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "scontrol"
    script.write_text("#!/bin/sh\nkill -TERM $$\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert job.requeue() == "SLURM job 7 is requeued"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_snakemake_sends_a_request_to_stop_on_to_its_commands(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE.replace("{python}", sys.executable))
    (tmp_path / "work.py").write_text(WORK)
    words = [str(PROGRAMS / "snakemake"), "--cores=1", "--quiet=all"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path))
    try:
        wait_for(tmp_path / "at-work")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
    assert (tmp_path / "made").exists()


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
