"""Preemption with a grace time: SLURM sends SIGTERM first and takes the nodes later."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rspo.core import slurm_job as job
from tests.support import ROOT, slurm_cluster, slurm_run
from tests.support.slurm_cluster import Cluster
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
import pathlib, signal, sys, time
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
pathlib.Path("at-work").touch()
while not asked:
    time.sleep(0.05)
if STATUS == 0:
    pathlib.Path("made").touch()
sys.exit(STATUS)
"""
SCONTROL = """\
#!/bin/sh
echo "$*" >> {folder}/asked
echo "JobId=7 JobState={state} StartTime=2026-01-02T03:04:05 PreemptTime={preempted}"
"""
NOW = "2026-01-02T04:00:00"


def write_scontrol(folder: Path, preempted: str = NOW, state: str = "RUNNING") -> None:
    """A fake `scontrol` that records its arguments."""
    script = folder / "scontrol"
    script.write_text(SCONTROL.format(folder=folder, preempted=preempted, state=state))
    script.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "7",
    }


@pytest.mark.parametrize(
    ("preempted", "state", "found"),
    [
        (NOW, "RUNNING", True),
        (NOW, "SIGNALING", True),  # its nodes are still delivering SIGTERM
        ("None", "RUNNING", False),
        ("2026-01-01T00:00:00", "RUNNING", False),  # earlier; it has started again since
    ],
)
def test_only_a_job_in_its_grace_time_counts_as_preempted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preempted: str, state: str, found: bool
) -> None:
    write_scontrol(tmp_path, preempted, state)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert not job.is_preempted()  # outside a job
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert job.is_preempted() == found


def test_a_slurm_command_survives_a_sigterm_to_all_processes_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scontrol(tmp_path)
    script = tmp_path / "scontrol"
    script.write_text(script.read_text().replace("echo", "kill -TERM $$\necho", 1))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert job.is_preempted()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize("status", [0, 75])
def test_sigterm_of_a_grace_time_becomes_a_request_to_stop(tmp_path: Path, status: int) -> None:
    """A job whose command then succeeds has not failed; otherwise it is requeued."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE.replace("{python}", sys.executable))
    (tmp_path / "work.py").write_text(WORK.replace("STATUS", str(status)))
    write_scontrol(tmp_path)
    words = [str(PROGRAMS / "snakemake"), "--cores=1", "--quiet=all"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path))
    try:
        wait_for(tmp_path / "at-work")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == (0 if status == 0 else 1)
    finally:
        process.kill()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked.count("requeue 7") == (status != 0)


def test_a_command_that_receives_sigterm_requeues_its_job(tmp_path: Path) -> None:
    write_scontrol(tmp_path)
    code = (
        "import pathlib, time, rspo.cli, rspo.core.trace\n"
        "def wait(file, depth):\n"
        "    pathlib.Path('at-work').touch()\n"
        "    time.sleep(60)\n"
        "rspo.core.trace.trace = wait\n"
        "raise SystemExit(rspo.cli.main(['trace', 'file']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(tmp_path / "at-work")
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert error == "rspo: SLURM job 7 is requeued\n"
    assert (tmp_path / "asked").read_text() == "--oneliner show job 7\nrequeue 7\n"


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- a real SLURM, about a minute ----------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    slurm_cluster.require_slurm()
    with slurm_cluster.started(nodes=1) as running:
        running.command("scontrol", "update", "PartitionName=gpu", "GraceTime=60")
        yield running


@pytest.mark.long
@pytest.mark.slurm
@pytest.mark.release
def test_a_cell_preempted_with_a_grace_time_is_requeued_and_resumes(
    cluster: Cluster, tmp_path: Path
) -> None:
    project = slurm_run.prepare_project(tmp_path / "project", slurm_run.TRAINING)
    run = slurm_run.Run(cluster, project, "--retries=0")
    try:
        number = run.wait_for_checkpoint()
        options = ["--partition=urgent", "--gres=gpu:h800:8", "--output=/dev/null"]
        urgent = cluster.command("sbatch", "--parsable", *options, "--wrap", "srun sleep 3")
        run.wait_for(lambda: cluster.job(urgent)["JobState"] == "COMPLETED")
        status, output = run.end()
    finally:
        run.kill()
    assert status == 0, output + run.job_logs()
    assert cluster.job(number)["Restarts"] == "1"
    assert slurm_run.restarts(output, number) == ["1"]
    processes = slurm_run.provenance(project)["processes"]
    assert [process["job"] for process in processes] == [number, number]
