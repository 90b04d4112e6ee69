"""Failures on a real SLURM: each is reported in one clear line, and no work is lost.

Every test trains one cell through `snakemake --profile slurm`, disturbs it after its first
checkpoint, and compares its curves with those of an undisturbed run, bit for bit.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.evaluation.curves import curves
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.training.train import train
from tests.support import ROOT, slurm_world
from tests.support.processes import LONGEST_WAIT
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_run import (
    CELL,
    POLICY,
    TRAINING,
    Run,
    cleaned_up,
    lines,
    prepare_project,
    provenance,
    restarts,
)
from tests.support.snakemake_project import PROGRAMS

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 3  # of the fixture `cluster`

BASE = "results/tiny/cells/small--base/policy"
# Longer than a time limit of a minute on any core: 100 to 400 seconds of training.
LONG_STEPS = 3000


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with everything that training reads."""
    return prepare_project(tmp_path_factory.mktemp("prepared"), TRAINING)


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The curves of the cell, trained in this process."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(prepared, folder)
    train(Experiment.load("tiny", root=folder), CELL)
    return results_of(folder)


@pytest.fixture
def project(prepared: Path, tmp_path: Path, cluster: Cluster) -> Path:
    """A project in which the cell is not trained, and a cluster that has nothing to do."""
    cluster.wait_until_idle()
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder)
    return folder


def results_of(project: Path) -> bytes:
    """Every number of the cell's curves and of its training, seconds aside."""
    experiment = Experiment.load("tiny", root=project)
    sample_suite(experiment, CELL, "standard")
    score(experiment, CELL, "standard")
    curves(experiment, CELL, "standard")
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, len(records) + 1))
    for record in records:
        del record["seconds"], record["tokens_per_second"]
    return experiment.curves(CELL, "standard").read_bytes() + json.dumps(records).encode()


def given_up(line: str) -> list[str]:
    """The last messages of a run in which one job failed for good."""
    return [
        f"given up: {line}",
        "the run is incomplete: the same command resumes it",
    ]


@pytest.fixture
def running(cluster: Cluster, project: Path) -> Iterator[Run]:
    with cleaned_up(Run(cluster, project)) as run:
        yield run


# --- the faults -----------------------------------------------------------------------------------


def test_a_preempted_cell_is_requeued_and_resumes(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    options = ["--partition=urgent", "--nodes=3", "--gres=gpu:h800:8", "--output=/dev/null"]
    urgent = cluster.command("sbatch", "--parsable", *options, "--wrap", "srun sleep 3")
    running.wait_for(lambda: cluster.job(urgent)["JobState"] == "COMPLETED")
    status, output = running.end()
    assert status == 0, output
    assert cluster.job(number)["Restarts"] == "1"
    assert restarts(output, number) == ["1"]
    assert results_of(project) == undisturbed


def test_a_cell_resumes_on_another_node_after_its_node_died(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    node = cluster.job(number)["NodeList"]
    cluster.stop_node(node)
    try:
        status, output = running.end()
    finally:
        cluster.start_node(node)
    assert status == 0, output
    job = cluster.job(number)
    assert job["Restarts"] == "1"
    assert job["NodeList"] != node
    assert restarts(output, number) == ["1"]
    assert results_of(project) == undisturbed


def test_out_of_memory_is_reported_and_more_memory_fixes_it(
    cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", mem_mb=250)
    status, output = Run(cluster, project, "--retries=0").end()
    assert status != 0
    line, *at_the_end = lines(output)
    assert at_the_end == given_up(line)
    assert re.fullmatch(
        rf"train {CELL}: SLURM job \d+ needed more memory than its mem_mb \[.+\.log\]", line
    )
    slurm_world.edit_profile(project, "set-resources", "train", mem_mb=64000)
    status, output = Run(cluster, project).end()
    assert status == 0, output
    assert results_of(project) == undisturbed


def test_a_cancelled_job_is_reported_and_submitted_again(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    cluster.command("scancel", number)
    status, output = running.end()
    assert status == 0, output
    (line,) = lines(output)
    assert line.startswith(f"train {CELL}: SLURM job {number} was cancelled (scancel)")
    assert results_of(project) == undisturbed
    jobs = [process["job"] for process in provenance(project)["processes"]]
    assert len(jobs) == 2
    assert jobs[0] == number


def test_a_full_disk_is_reported_and_more_space_fixes_it(
    cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    """Room for one checkpoint and not for the second beside it."""
    cell = (project / POLICY).parent
    cell.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2500k", "tmpfs", cell], check=True)
    try:
        status, output = Run(cluster, project, "--retries=0").end()
        assert status != 0
        line, *at_the_end = lines(output)
        assert at_the_end == given_up(line)
        assert line.startswith(f"train {CELL}: SLURM job ")
        assert "No space left on device" in line
        assert (cell / "checkpoint" / "state.pt").exists()
        subprocess.run(["mount", "-o", "remount,size=100m", cell], check=True)
        status, output = Run(cluster, project).end()
        assert status == 0, output
        assert results_of(project) == undisturbed
    finally:
        subprocess.run(["umount", "--lazy", cell], check=True)


def test_a_run_waits_for_an_absent_controller(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    cluster.stop_controller()
    try:
        running.wait_for(lambda: "does not answer" in running.log.read_text())
        time.sleep(10)
    finally:
        cluster.start_controller()
    status, output = running.end()
    assert status == 0, output
    first, *more = lines(output)
    assert first == "SLURM's controller does not answer: waiting for it; running jobs continue"
    # The second line is missing if the job ended meanwhile.
    assert more in ([], ["SLURM's controller answers again"])
    assert cluster.job(number)["Restarts"] == "0"
    assert results_of(project) == undisturbed


def test_a_job_that_becomes_ready_while_the_controller_is_away_waits_for_it(
    cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    """The base policy is trained outside SLURM; the controller is absent when it is done.

    Without retries: waiting for the controller must not use one.
    """
    shutil.rmtree(project / BASE)
    with cleaned_up(Run(cluster, project, "--retries=0")) as run:
        run.wait_for((project / "results/tiny/logs/pretrain/small.log").exists)
        cluster.stop_controller()
        try:
            run.wait_for((project / BASE).exists)
            run.wait_for(lambda: "does not answer" in run.log.read_text())
            time.sleep(15)  # sbatch would have given up
            assert run.process.poll() is None, run.log.read_text()
        finally:
            cluster.start_controller()
        status, output = run.end()
    assert status == 0, output
    assert lines(output) == [
        "SLURM's controller does not answer: waiting for it; running jobs continue",
        "SLURM's controller answers again",
    ]
    assert len(provenance(project)["processes"]) == 1
    assert results_of(project) == undisturbed


def test_a_job_whose_launch_failed_is_released(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    """SLURM drains each node on which the launch fails, and holds the job."""
    number = running.wait_for_checkpoint()
    for node in cluster.nodes:
        cluster.break_launches(node)
    try:
        cluster.command("scontrol", "requeue", number)
        held = f"SLURM job {number} was held (launch failed requeued held): released (1 of 3)"
        running.wait_for(lambda: held in running.log.read_text())
    finally:
        for node in cluster.nodes:
            cluster.fix_launches(node)
        cluster.resume_nodes()
    status, output = running.end()
    assert status == 0, output
    assert len(provenance(project)["processes"]) == 2
    assert results_of(project) == undisturbed


def test_a_job_that_the_controller_forgot_is_submitted_again(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    cluster.stop_controller()
    cluster.lose_state(None)
    cluster.start_controller()
    status, output = running.end()
    assert status == 0, output
    expected = f"train {CELL}: SLURM job {number} was forgotten by SLURM: submitting it again"
    assert expected in lines(output)
    assert len(provenance(project)["processes"]) == 2
    assert results_of(project) == undisturbed


def test_jobs_of_a_killed_snakemake_continue_and_are_not_submitted_twice(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    running.kill()
    cluster.command("scontrol", "suspend", number)  # or it may end before the second run starts
    status, output = slurm_world.run(cluster, project, POLICY)
    assert status != 0
    assert f"SLURM jobs of another run work in this folder: {number} (rule_train" in output
    assert f"or cancel them: scancel {number}" in output
    assert [job for job, *_ in cluster.jobs()] == [number]
    cluster.command("scontrol", "resume", number)
    cluster.wait_until_idle()
    assert cluster.job(number)["JobState"] == "COMPLETED"
    status, output = slurm_world.run(cluster, project, POLICY)
    assert status == 0, output
    assert "Nothing to be done" in output
    assert results_of(project) == undisturbed


def forget_the_end_of(cluster: Cluster, job: str, copy: Path) -> None:
    """Wait until a running job has ended; the controller then loses all since before its end."""
    controller = cluster.daemons["slurmctld"]
    controller.terminate()  # it saves its state, unlike one that is killed
    controller.wait()
    shutil.copytree(cluster.folder / "state", copy)
    cluster.start_controller()
    deadline = time.monotonic() + LONGEST_WAIT
    while cluster.job(job)["JobState"] != "COMPLETED":
        assert time.monotonic() < deadline, cluster.queue()
        time.sleep(0.1)
    cluster.stop_controller()
    cluster.lose_state(copy)
    cluster.start_controller()
    assert cluster.job(job)["JobState"] == "RUNNING"


def test_a_job_whose_end_slurm_did_not_notice_counts_as_ended(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes, tmp_path: Path
) -> None:
    number = running.wait_for_checkpoint()
    os.killpg(running.process.pid, signal.SIGSTOP)  # it must not see the end
    forget_the_end_of(cluster, number, tmp_path / "state")
    os.killpg(running.process.pid, signal.SIGCONT)
    status, output = running.end()
    assert status == 0, output
    expected = f"train {CELL}: SLURM job {number} ended without SLURM's notice, but is complete"
    assert expected in lines(output)
    assert cluster.job(number)["JobState"] == "CANCELLED"
    assert results_of(project) == undisturbed


def test_a_job_of_an_earlier_run_whose_end_slurm_did_not_notice_is_cancelled(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes, tmp_path: Path
) -> None:
    number = running.wait_for_checkpoint()
    running.kill()
    forget_the_end_of(cluster, number, tmp_path / "state")
    status, output = slurm_world.run(cluster, project, POLICY)
    assert status == 0, output
    ended = "of an earlier run, which has ended without SLURM's notice"
    assert f"cancelled SLURM job {number} {ended}" in lines(output)
    assert "Nothing to be done" in output
    assert results_of(project) == undisturbed


def test_a_second_run_in_the_same_folder_is_refused(
    running: Run, cluster: Cluster, project: Path, undisturbed: bytes
) -> None:
    number = running.wait_for_checkpoint()
    cluster.command("scontrol", "suspend", number)  # or it may end before the second has begun
    # The command itself, without Snakemake and SLURM.
    alone = subprocess.run(
        [PROGRAMS / "rspo", "train", CELL],
        cwd=project,
        env=cluster.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 2
    assert f"SLURM job {number}, process " in alone.stderr
    assert " on n1 is running here; wait for it or end it" in alone.stderr
    status, output = slurm_world.run(cluster, project, POLICY)
    assert status != 0
    assert f"SLURM jobs of another run work in this folder: {number} (" in output
    cluster.command("scontrol", "resume", number)
    status, output = running.end()
    assert status == 0, output
    assert results_of(project) == undisturbed


@pytest.mark.parametrize("interrupt", [os.kill, os.killpg], ids=["Snakemake", "all"])
def test_an_interrupt_cancels_a_job_whose_submission_is_under_way(
    cluster: Cluster,
    project: Path,
    undisturbed: bytes,
    tmp_path: Path,
    interrupt: Callable[[int, int], None],
) -> None:
    """Ctrl-C in a terminal interrupts all processes, also `sbatch`."""
    submitted = tmp_path / "submitted"
    with slow_sbatch(cluster, submitted), cleaned_up(Run(cluster, project)) as run:
        run.wait_for(submitted.exists)
        interrupt(run.process.pid, signal.SIGINT)
        status, output = run.end()
        cluster.wait_until_idle()
    number = submitted.read_text().strip()
    assert status != 0, output
    assert cluster.job(number)["JobState"] == "CANCELLED"
    assert not Experiment.load("tiny", root=project).policy(CELL).exists()
    status, output = Run(cluster, project).end()
    assert status == 0, output
    assert results_of(project) == undisturbed


@contextmanager
def slow_sbatch(cluster: Cluster, submitted: Path) -> Iterator[None]:
    """Let `sbatch` return some seconds after SLURM accepted a job for training.

    submitted: file for the job's number.
    """
    command = cluster.folder / "bin" / "sbatch"
    fast = command.with_name("fast-sbatch")
    command.rename(fast)
    script = f"""\
#!/bin/sh
case "$*" in *rule_train*) ;; *) exec {fast} "$@" ;; esac
{fast} "$@" > {submitted}.part && mv {submitted}.part {submitted}
sleep 4
cat {submitted}
"""
    command.write_text(script)
    command.chmod(0o755)
    try:
        yield
    finally:
        fast.replace(command)


# --- a time limit ---------------------------------------------------------------------------------


def test_a_cell_longer_than_its_time_limit_finishes_in_several_jobs_by_itself(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A minute's limit, half of it at least before the signal: SLURM looks twice a minute."""
    cluster.wait_until_idle()
    training = TRAINING | {"steps": LONG_STEPS, "checkpoint_every": 100}
    project = prepare_project(tmp_path / "project", training)
    shutil.copytree(project, tmp_path / "undisturbed")
    extra = "--signal=USR1@1 --open-mode=append"
    slurm_world.edit_profile(
        project,
        "set-resources",
        "train",
        slurm_partition="short",
        runtime=1,
        slurm_extra=f"'{extra}'",
    )
    run = Run(cluster, project)
    train(Experiment.load("tiny", root=tmp_path / "undisturbed"), CELL)
    status, output = run.end()
    assert status == 0, output
    processes = provenance(project)["processes"]
    assert len(processes) >= 2
    (number,) = {process["job"] for process in processes}  # the same one, requeued
    assert restarts(output, number) == [str(n) for n in range(1, len(processes))]
    (log,) = (project / "logs" / "slurm" / "rule_train" / CELL).iterdir()
    said = re.findall(r"^rspo: stopped at step (\d+)", log.read_text(), flags=re.M)
    stops = [int(step) for step in said]
    assert len(stops) == len(processes) - 1
    assert any(stop % 100 for stop in stops)  # between checkpoints, and nothing is repeated
    assert results_of(project) == results_of(tmp_path / "undisturbed")
