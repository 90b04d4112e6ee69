"""Requests to stop, which SLURM sends before a time limit, and the end of a killed Snakemake."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core import signals
from rspo.core.files import read_json_lines
from rspo.core.slurm_job import host_name
from tests.support import ROOT
from tests.support.processes import LONGEST_WAIT, wait_for_lock

CELL = "small--rspo-pass--k4--n16--s0"
STEPS = 12
# The one checkpoint of an undisturbed training would come with its last step.
SMALL = [
    "--set=models.small.scratch={examples: 500, batch: 16, steps: 30}",
    f"--set=training={{steps: {STEPS}, prompts_per_step: 10, mini_batch_prompts: 5}}",
    f"--set=training.checkpoint_every={STEPS}",
    "--set=data.train.generated.problems=10",
    "--results=trial",
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the configs, problems and a base policy, as the current one."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "train", *SMALL]) == 0
    assert main(["pretrain", "small", *SMALL]) == 0
    return tmp_path


def start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "rspo", "train", CELL, *SMALL],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.ci
def test_a_request_to_stop_costs_no_step_and_changes_no_bit(project: Path) -> None:
    """Sent to the whole process group, as a batch system does, and more than once."""
    experiment = Experiment.load("tiny", root=project, results=project / "trial")
    policy, log = experiment.files.policy(CELL), experiment.files.training_log(CELL)
    stops = []
    for _ in range(2):
        process = start()
        wait_for_lock(experiment.files.folder(CELL), process)
        os.killpg(process.pid, signal.SIGUSR1)
        os.killpg(process.pid, signal.SIGUSR1)
        _, error = process.communicate(timeout=LONGEST_WAIT)
        assert process.returncode == 75
        words = error.split()
        assert error == f"rspo: stopped at step {words[4]} on request; " + (
            "the next run resumes there\n"
        )
        stops.append(int(words[4]))
        assert not policy.exists()
        assert (experiment.files.checkpoint(CELL) / "state.pt").exists()
    assert stops == [1, 2]  # each finished the step that it was asked in, and repeated none
    assert start().wait(timeout=LONGEST_WAIT) == 0
    weights, records = (policy / "model.safetensors").read_bytes(), lasting(log)
    shutil.rmtree(policy)
    assert start().wait(timeout=LONGEST_WAIT) == 0  # undisturbed: there is no checkpoint any more
    assert (policy / "model.safetensors").read_bytes() == weights
    assert lasting(log) == records
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))


def lasting(log: Path) -> list[dict[str, object]]:
    """The records without their times."""
    return [
        {key: value for key, value in record.items() if "second" not in key}
        for record in read_json_lines(log)
    ]


def test_snakemake_is_named_by_its_process_host_and_namespace() -> None:
    """In a container, its process ID is that of another process outside."""
    namespace = os.readlink("/proc/self/ns/pid")
    assert signals.name_of_snakemake() == f"{os.getpid()} {host_name()} {namespace}"


@pytest.mark.parametrize("name", [None, "", "1 elsewhere", "x {place}"])
def test_a_command_without_a_snakemake_on_its_host_watches_none(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    monkeypatch.delenv(signals.SNAKEMAKE, raising=False)
    if name is not None:
        place = signals.name_of_snakemake().partition(" ")[2]
        monkeypatch.setenv(signals.SNAKEMAKE, name.format(place=place))
    before = threading.active_count()
    signals.end_with_snakemake()
    assert threading.active_count() == before


WATCHING = "import time; from rspo.core import signals; signals.end_with_snakemake(); print(1); "


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_command_ends_with_the_snakemake_on_its_host_that_was_killed(elsewhere: bool) -> None:
    snakemake = subprocess.Popen(["sleep", "60"])
    name = signals.name_of_snakemake().partition(" ")[2]
    place = "elsewhere" if elsewhere else name
    command = subprocess.Popen(
        [sys.executable, "-c", f"{WATCHING} time.sleep({2.5 if elsewhere else 60})"],
        env=os.environ | {"PYTHONPATH": str(ROOT), signals.SNAKEMAKE: f"{snakemake.pid} {place}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "1\n"
    assert command.poll() is None
    snakemake.kill()  # and is a zombie until the end of the test
    command.communicate(timeout=LONGEST_WAIT)
    snakemake.wait()
    assert command.returncode == (0 if elsewhere else -signal.SIGTERM)
