"""The commands of docs/first_hour.md, on a real SLURM with fake GPUs and the tiny models.

About five minutes. `make gpu-check` and the paper's models need GPUs; tests/gpu and
tests/slurm/test_rehearsal.py try these without.
"""

import os
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rspo.config.experiment import Experiment
from rspo.status.policies import statuses
from tests.support import ROOT, slurm_world
from tests.support.processes import LONGEST_WAIT
from tests.support.slurm_cluster import Cluster
from tests.support.snakemake_project import PROGRAMS

NODES = 2  # of the fixture `cluster`
PAGE = ROOT / "docs" / "first_hour.md"
# The commands of the page, in its order.
COMMANDS = [
    "make setup-gpu",
    "source .venv/bin/activate",
    "srun --partition=gpu --mem=8G rspo doctor --scale paper --node",
    "snakemake data models --config scale=paper",
    "rspo doctor --scale paper",
    "rspo plan --scale paper",
    "snakemake -n all --profile slurm",
    "srun --partition=gpu --gres=gpu:8 --cpus-per-task=64 --mem=500G --time=60 make gpu-check",
    "snakemake stress --profile slurm",
    'squeue --me -o "%i %T %M %k"',
    "scontrol requeue NUMBER",
    "snakemake pilot --profile slurm",
    "snakemake reports/fig_main.pdf --profile slurm",
    "snakemake all --profile slurm",
]


def trial(
    variant: str, *checks: str, seconds: float | None = None, suite: str = ""
) -> dict[str, Any]:
    cell = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16, "variant": variant}
    return {"cells": [cell], "checks": list(checks), "step_seconds": seconds, "suite": suite}


TRIALS: dict[str, Any] = {
    "variants": {
        "stress": {"training": {"steps": 2, "checkpoint_every": 1}},
        # 5 to 20 seconds on an idle core, so that the training can be interrupted.
        "pilot": {"training": {"steps": 120, "checkpoint_every": 4}},
    },
    "trials": {
        "stress": trial("stress", "sampler"),
        "pilot": trial("pilot", "seconds", "sampler", seconds=600, suite="standard"),
        "hopeless": trial("stress", "seconds", seconds=1e-9),
    },
}


def test_the_page_has_these_commands() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [re.sub(r"\s+#.*", "", line) for line in lines] == COMMANDS


def make_project(folder: Path) -> Path:
    """A project with the trials, and without the studies, whose models would be pretrained too."""
    project = slurm_world.make_project(folder, **TRIALS)
    file = project / "config" / "tiny.yaml"
    config = yaml.safe_load(file.read_text()) | {"studies": {}}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return project


def run_here(cluster: Cluster, project: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the page that names no profile, at the tiny scale."""
    assert command in COMMANDS
    words = command.replace(" --scale paper", "").replace("scale=paper", "scale=tiny")
    environment = cluster.environment | {"PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{PROGRAMS}:{environment['PATH']}"
    if words.startswith("snakemake"):
        words += " --cores 2"
    done = subprocess.run(
        shlex.split(words), cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def requeue_a_training(cluster: Cluster, project: Path) -> None:
    """`scontrol requeue`, after the first checkpoint of the pilot."""
    experiment = Experiment.load("tiny", root=project)
    (cell,) = experiment.cells_of("pilot")
    checkpoint = experiment.files.checkpoint(cell.name) / "state.pt"
    deadline = time.monotonic() + LONGEST_WAIT
    while not checkpoint.exists():
        assert time.monotonic() < deadline, cluster.queue()
        time.sleep(0.1)
    jobs = cluster.jobs("%i %T %k")
    (number,) = [words[0] for words in jobs if "RUNNING" in words and cell.name in " ".join(words)]
    cluster.command("scontrol", "requeue", number)


@pytest.mark.long
@pytest.mark.slurm
def test_the_first_hour_from_the_check_of_a_node_to_a_figure(
    cluster: Cluster, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project")
    node = run_here(cluster, project, COMMANDS[2])
    assert re.match(r"ok +srun --version +slurm", node.stdout)
    run_here(cluster, project, COMMANDS[3])
    assert run_here(cluster, project, COMMANDS[4]).stdout.endswith("nothing to change\n")
    run_here(cluster, project, COMMANDS[5])

    status, output = slurm_world.run(cluster, project, "-n", "all")
    assert (status, "train" in output) == (0, True)
    status, output = slurm_world.run(cluster, project, "stress")
    assert status == 0, output
    assert "trial stress of scale tiny: go" in output

    log = project / "pilot.log"
    process = slurm_world.start(cluster, project, "pilot", log=log)
    try:
        requeue_a_training(cluster, project)
        assert process.wait(timeout=slurm_world.LONGEST_RUN) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
    output = log.read_text()
    assert "was requeued (restart 1)" in output
    assert re.search(r"ok  seconds .* seconds in the median step, at most 600", output)
    assert "trial pilot of scale tiny: go" in output

    # A trial that fails is a failure of Snakemake, and its cells stay.
    status, output = slurm_world.run(cluster, project, "hopeless")
    assert status == 1
    assert "trial hopeless of scale tiny: no go: 1 of 1 checks failed" in output
    states = {one.policy: one.state for one in statuses(Experiment.load("tiny", root=project))}
    trained = [policy for policy, state in states.items() if state in ("trained", "evaluated")]
    assert len(trained) == 3, states  # the base policy and the cells of both trials

    status, output = slurm_world.run(cluster, project, slurm_world.FIGURE)
    assert status == 0, output
    assert cluster.jobs() == []
