"""A job that shows that it is alive, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from snakemake_executor_plugin_slurm_patient.heartbeat import START, Heartbeats
from tests.support.processes import wait_until

SNAKEFILE = """\
rule wait:
    output: "made"
    shell: "while ! test -e end; do sleep 0.1; done; touch made"
"""


@pytest.fixture
def heartbeats(tmp_path: Path) -> Heartbeats:
    return Heartbeats(tmp_path / "heart beats", seconds=1.2)


class JobProcess:
    """Snakemake as in job 12, whose rule waits for the file `end`."""

    def __init__(self, heartbeats: Heartbeats, folder: Path) -> None:
        self.folder = folder
        (folder / "Snakefile").write_text(SNAKEFILE)
        self.process = subprocess.Popen(
            f"exec {heartbeats.python(sys.executable)} -m snakemake --cores 1 --quiet all",
            shell=True,
            cwd=folder,
            env=os.environ | {"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "3"},
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until((heartbeats.folder / "12.3").exists)

    def end(self) -> int:
        (self.folder / "end").touch()
        self.output = self.process.communicate()[0]
        return self.process.returncode


@pytest.fixture
def job(heartbeats: Heartbeats, tmp_path: Path) -> Iterator[JobProcess]:
    job = JobProcess(heartbeats, tmp_path)
    yield job
    if job.process.poll() is None:
        job.end()


def test_a_job_is_alive_while_snakemake_runs_and_has_succeeded_afterwards(
    heartbeats: Heartbeats, job: JobProcess
) -> None:
    time.sleep(2 * heartbeats.seconds)
    assert heartbeats.is_alive("12")
    assert not heartbeats.has_ended("12", 3)
    assert not heartbeats.has_succeeded("12")
    assert job.end() == 0
    assert job.output.startswith(f"{START}3 of job 12")
    assert heartbeats.has_succeeded("12")
    assert heartbeats.has_ended("12", 3)  # at once
    assert not heartbeats.has_ended("12", 4)  # it has not started
    heartbeats.forget("12")
    assert not heartbeats.has_succeeded("12")
    assert not heartbeats.is_alive("12")


def test_a_killed_job_has_ended_without_success(heartbeats: Heartbeats, job: JobProcess) -> None:
    job.process.kill()
    job.process.wait()
    wait_until(lambda: heartbeats.has_ended("12", 3))
    assert not heartbeats.has_succeeded("12")
