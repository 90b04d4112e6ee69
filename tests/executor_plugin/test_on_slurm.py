"""A workflow without `rspo`, and the plugin without this checkout, on a real SLURM with faults.

About three minutes.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.executor_plugin import alone
from tests.support.processes import wait_until
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`

# Each job waits for a file `NAME.go`.
SNAKEFILE = """\
rule all:
    input: "a.made", "b.made"
rule make:
    output: "{name}.made"
    shell:
        "echo $SLURM_JOB_ID >> {wildcards.name}.jobs; "
        "while ! test -e {wildcards.name}.go; do sleep 0.1; done; "
        "echo {wildcards.name} > {output}"
"""
OPTIONS = ["--executor=slurm-patient", "--jobs=2"]
OPTIONS += ["--default-resources", "slurm_partition=cpu", "mem_mb=2000", "runtime=5"]
SETTINGS = {
    "status-command": "squeue",
    "init-seconds-before-status-checks": 1,
}
OPTIONS += [f"--slurm-patient-{name}={value}" for name, value in SETTINGS.items()]


class Run:
    """One Snakemake."""

    def __init__(self, cluster: Cluster, folder: Path, *words: str) -> None:
        self.folder, self.log = folder, folder / "run.log"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", *OPTIONS, *words],
            cwd=folder,
            env=cluster.environment | {"PYTHONPATH": str(folder / "plugins")},
            stdout=self.log.open("a"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for_job(self, name: str, starts: int = 1) -> str:
        """Wait until a job has started so often; the number of the last start."""
        file = self.folder / f"{name}.jobs"
        wait_until(lambda: file.exists() and len(file.read_text().split()) >= starts)
        return file.read_text().split()[-1]

    def wait_for_line(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text())

    def end(self) -> tuple[int, list[str]]:
        """Let the jobs end; Snakemake's exit status, and the messages of the plugin."""
        for name in "ab":
            (self.folder / f"{name}.go").touch()
        status = self.process.wait(600)
        lines = self.log.read_text().splitlines()
        start = "slurm-patient: "
        return status, [line.removeprefix(start) for line in lines if line.startswith(start)]


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts Snakemake in a folder of the test's own."""
    cluster.wait_until_idle()
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    alone.install(tmp_path / "plugins")
    runs: list[Run] = []

    def start(*words: str) -> Run:
        runs.append(Run(cluster, tmp_path, *words))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
    cluster.command("scancel", "--user=root", check=False)


def made(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in folder.glob("*.made")}


def test_a_cancelled_job_is_submitted_again_or_given_up(
    start: Callable[..., Run], cluster: Cluster, tmp_path: Path
) -> None:
    run = start("--retries=1", "--keep-going")
    first = run.wait_for_job("a")
    cluster.command("scancel", first)
    second = run.wait_for_job("a", starts=2)
    cluster.command("scancel", second)
    line = f"make a: SLURM job {second} was cancelled (scancel)"
    run.wait_for_line(line)
    status, lines = run.end()
    assert status == 1
    assert [line.partition(" [")[0] for line in lines] == [
        f"make a: SLURM job {first} was cancelled (scancel)",
        line,
        f"given up: {line}",
        "the run is incomplete: the same command resumes it",
    ]
    assert made(tmp_path) == {"b": "b\n"}


def test_an_interrupt_cancels_all_jobs_and_the_same_command_resumes(
    start: Callable[..., Run], cluster: Cluster, tmp_path: Path
) -> None:
    """Ctrl-C in a terminal interrupts all processes."""
    run = start()
    numbers = [run.wait_for_job(name) for name in "ab"]
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.process.wait(600) != 0
    for number in numbers:
        wait_until(lambda number=number: cluster.job(number)["JobState"] == "CANCELLED")
    assert made(tmp_path) == {}
    second = start()
    for name in "ab":
        second.wait_for_job(name, starts=2)
    assert second.end()[0] == 0
    assert made(tmp_path) == {"a": "a\n", "b": "b\n"}


def test_jobs_whose_launch_failed_are_released(
    start: Callable[..., Run], cluster: Cluster, tmp_path: Path
) -> None:
    """SLURM drains each node whose prolog fails, and holds the job, until somebody releases it."""
    for node in cluster.nodes:
        cluster.break_launches(node)
    try:
        run = start()
        run.wait_for_line("was held (launch failed requeued held): released (1 of 3)")
    finally:
        for node in cluster.nodes:
            cluster.fix_launches(node)
        wait_until(lambda: resumed(cluster))
    for name in "ab":
        run.wait_for_job(name)
    assert run.end()[0] == 0
    assert made(tmp_path) == {"a": "a\n", "b": "b\n"}


def resumed(cluster: Cluster) -> bool:
    """Resume the drained nodes; whether none is left."""
    cluster.resume_nodes()
    return "dra" not in cluster.command("sinfo", "-h", "-N", "-o", "%T")


def test_a_run_survives_a_controller_that_forgets_its_jobs(
    start: Callable[..., Run], cluster: Cluster, tmp_path: Path
) -> None:
    """A job that SLURM no longer knows has failed, and Snakemake tries it again."""
    run = start("--retries=1")
    numbers = [run.wait_for_job(name) for name in "ab"]
    cluster.stop_controller()
    run.wait_for_line("controller does not answer")
    cluster.lose_state(None)
    cluster.start_controller()
    for name in "ab":
        run.wait_for_job(name, starts=2)
    status, lines = run.end()
    assert status == 0
    assert made(tmp_path) == {"a": "a\n", "b": "b\n"}
    controller = "SLURM's controller"
    assert lines[:2] == [
        f"{controller} does not answer: waiting for it; running jobs continue",
        f"{controller} answers again",
    ]
    assert sorted(line.partition(" [")[0] for line in lines[2:]) == [
        f"make {name}: SLURM job {number} was forgotten by SLURM"
        for name, number in zip("ab", numbers, strict=True)
    ]


def test_jobs_left_behind_by_a_killed_snakemake_are_not_submitted_twice(
    start: Callable[..., Run], cluster: Cluster, tmp_path: Path
) -> None:
    run = start()
    numbers = [run.wait_for_job(name) for name in "ab"]
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    second = start("--nolock")
    assert second.process.wait(600) == 1
    output = second.log.read_text()
    assert f"{tmp_path}: SLURM jobs of another run work in this folder: " in output
    assert f"cancel them: scancel {' '.join(sorted(numbers))}" in output
    for name in "ab":
        (tmp_path / f"{name}.go").touch()
    cluster.wait_until_idle()
    third = start("--nolock")
    assert third.end()[0] == 0
    assert made(tmp_path) == {"a": "a\n", "b": "b\n"}
    assert (tmp_path / "a.jobs").read_text().split() == [numbers[0]]
