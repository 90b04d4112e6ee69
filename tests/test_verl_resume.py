"""A cell through verl killed after its first checkpoint, and gone on from: about two minutes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rspo.datasets.prepare import prepare
from rspo.experiment import Experiment
from rspo.files import read_json_lines
from rspo.policies.pretraining import make_base_policy

from . import tiny_world

pytestmark = pytest.mark.long

CELL = "small--rspo-pass--k4--n16--s0"
STEPS, CHECKPOINT_EVERY = 6, 2
TRAINING = tiny_world.OVERRIDES["training"] | {
    "steps": STEPS,
    "checkpoint_every": CHECKPOINT_EVERY,
    "validation": {"every": 1, "problems": 5, "samples": 2},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with problems and a base policy, where the `rspo` command can run."""
    folder = tmp_path_factory.mktemp("verl")
    experiment = tiny_world.load(folder, training=TRAINING)
    prepare(experiment, "train")
    prepare(experiment, "validation")
    make_base_policy(experiment, "small")
    return folder


def start(root: Path, log: Path) -> "subprocess.Popen[str]":
    """`rspo train CELL --set engine=verl`, in the small world."""
    overrides = tiny_world.OVERRIDES | {"training": TRAINING, "engine": "verl"}
    sets = [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "rspo.cli", "train", CELL, *sets],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(tiny_world.ROOT)},
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_after_a_checkpoint(
    process: "subprocess.Popen[str]", checkpoint: Path, log: Path
) -> list[psutil.Process]:
    """SIGKILL as soon as a checkpoint is noted as whole; the processes that it had started."""
    noted = checkpoint / "latest_checkpointed_iteration.txt"
    while not noted.exists():
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return children


@pytest.fixture(scope="module")
def trained(root: Path) -> Experiment:
    """A cell that was killed after its first checkpoint and trained to the end."""
    experiment = tiny_world.load(root, training=TRAINING, engine="verl")
    checkpoint, log = experiment.checkpoint(CELL), root / "log"
    orphans = kill_after_a_checkpoint(start(root, log), checkpoint, log)
    first = checkpoint / f"global_step_{CHECKPOINT_EVERY}" / "records.json"
    (root / "before.json").write_text(first.read_text())
    assert not experiment.policy(CELL).exists()
    assert start(root, log).wait(timeout=300) == 0, log.read_text()[-3000:]
    # Ray's last agents look for their parent once a minute.
    assert psutil.wait_procs(orphans, timeout=60)[1] == []
    return experiment


def test_every_step_is_logged_once(trained: Experiment) -> None:
    records = read_json_lines(trained.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    before = json.loads((trained.results.parent.parent / "before.json").read_text())
    assert records[:CHECKPOINT_EVERY] == before
    assert all("validation" in record for record in records)
