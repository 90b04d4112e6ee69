"""A short cell with verl, Ray, FSDP and a rollout server, on a CPU, killed once.

Three minutes: verl starts three times. test_kills.py kills each kind of process.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from rspo.config.experiment import Experiment, base_name
from rspo.core.environment import VLLM, local_caches
from rspo.core.files import read_json_lines
from rspo.core.supervisor import processes_with
from rspo.datasets.prepare import prepare
from rspo.policies import qwen2
from rspo.training.train import train as train_locally
from rspo.training.verl.checkpoints import LATEST_FILE, RECORDS_FILE
from rspo.training.verl.ray_cluster import key_of
from tests.support import tiny_world
from tests.support.servers_numbers import servers_numbers
from tests.training.verl.command import Command

pytestmark = pytest.mark.ci
CELL = "small--rspo-pass--k4--n16--s0"
STEPS, CHECKPOINT_EVERY = 4, 2
CLIP = 1e-3  # less than any gradient's norm
# Of a record: what depends on the sampled tokens alone.
SAMPLED = ("reward", "pass_at_4", "response_tokens", "finished", "zero_weight", "learning_rate")
CHANGES = {
    "training": tiny_world.OVERRIDES["training"]
    | {
        "steps": STEPS,
        "optimizer": {"gradient_clip": CLIP},
        "checkpoint_every": CHECKPOINT_EVERY,
        "validation": {"every": 2, "problems": 20, "samples": 4},
    },
}


def make_inputs(folder: Path, **changes: object) -> Experiment:
    experiment = tiny_world.load_prepared(folder, **(CHANGES | changes))
    prepare(experiment, "validation")
    return experiment


def start(experiment: Experiment) -> Command:
    """Start the training with its own folder for temporary files."""
    root = experiment.files.reports.parent
    (root / "temporary").mkdir(exist_ok=True)
    own = {"TMPDIR": str(root / "temporary")}
    with pytest.MonkeyPatch.context() as patch:
        for name in local_caches():
            patch.delenv(name, raising=False)
        return Command(experiment, CELL, own)


@dataclass(frozen=True)
class Killed:
    """A cell that was killed after its first checkpoint, and then trained to the end."""

    experiment: Experiment
    before: list[dict[str, Any]]  # records in the checkpoint that it resumed from
    environments: dict[str, dict[str, str]]  # of its processes before the kill, by command


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    root = tmp_path_factory.mktemp("verl")
    experiment = make_inputs(root, engine="verl")
    checkpoint, first = experiment.files.checkpoint(CELL), start(experiment)
    while not (checkpoint / LATEST_FILE).exists():
        first.require_running()
        time.sleep(0.05)
    processes = processes_with(key_of(experiment.files.folder(CELL)))
    environments = {" ".join(each.cmdline()): each.environ() for each in processes}
    first.process.kill()
    first.process.wait()
    assert not experiment.files.policy(CELL).exists()
    records = checkpoint / f"global_step_{CHECKPOINT_EVERY}" / RECORDS_FILE
    before = json.loads(records.read_text())
    start(experiment).require_success()
    return Killed(experiment, before, environments)


@pytest.fixture(scope="module")
def trained(killed: Killed) -> Experiment:
    """The experiment with a cell that verl trained."""
    return killed.experiment


@pytest.fixture(scope="module")
def trained_locally(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The local engine with the random numbers of verl's servers."""
    experiment = make_inputs(tmp_path_factory.mktemp("local"))
    with servers_numbers():
        train_locally(experiment, CELL)
    return experiment


def test_every_step_is_logged_once(killed: Killed) -> None:
    """Steps before the checkpoint are those of the killed run."""
    records = read_json_lines(killed.experiment.files.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert records[:CHECKPOINT_EVERY] == killed.before


def test_no_temporary_file_is_left(killed: Killed) -> None:
    """Except the caches of compiled code."""
    folder = killed.experiment.files.reports.parent / "temporary"
    assert [path.name for path in folder.iterdir() if "caches" not in path.name] == []


def test_driver_ranks_and_servers_use_caches_of_this_node(killed: Killed) -> None:
    folder = killed.experiment.files.reports.parent / "temporary"
    for part in ("verl.driver", "ray::WorkerDict", "ray::Server"):
        found = [its for name, its in killed.environments.items() if part in name]
        assert found, list(killed.environments)
        for variables in found:
            assert VLLM.items() <= variables.items()
            for name in local_caches():
                assert Path(variables[name]).is_relative_to(folder)


def test_the_files_are_those_of_the_local_engine(
    trained: Experiment, trained_locally: Experiment
) -> None:
    records, expected = (
        read_json_lines(experiment.files.training_log(CELL))
        for experiment in (trained, trained_locally)
    )
    for ours, theirs in zip(records, expected, strict=True):
        assert set(ours) == {*theirs, "sampler", "memory_gb"}
        for record in (ours, theirs):
            # Before clipping. Without a correct response, a mini-batch has no gradient to clip.
            assert (record["gradient_norm"] > CLIP) == (record["gradient_clipped"] > 0)
        assert list(ours["seconds"]) == [*theirs["seconds"], "weights"]
    assert max(record["gradient_clipped"] for record in records) > 0
    ours, theirs = (
        {
            file.relative_to(e.files.folder(CELL))
            for file in e.files.folder(CELL).rglob("*")
            if file.is_file()
        }
        for e in (trained, trained_locally)
    )
    assert ours - theirs == {Path("verl.yaml"), Path("verl.yaml.provenance.json")}
    assert theirs <= ours


def test_with_the_same_random_numbers_the_records_are_the_same(
    trained: Experiment, trained_locally: Experiment
) -> None:
    """Rounding differs, but hardly ever enough to sample another token."""
    records, expected = (
        read_json_lines(experiment.files.training_log(CELL))
        for experiment in (trained, trained_locally)
    )
    for ours, theirs in zip(records, expected, strict=True):
        for key in SAMPLED:
            assert ours[key] == pytest.approx(theirs[key]), key
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-3)
        # verl's is an estimate from the sampled tokens.
        assert ours["entropy"] == pytest.approx(theirs["entropy"], rel=0.15)
        assert ours.get("validation") == pytest.approx(theirs.get("validation"))


def test_two_ranks_train_as_one(tmp_path: Path) -> None:
    """Two steps, with the random numbers of the servers; only rounding differs."""
    changes = {"training": CHANGES["training"] | {"steps": 2}}
    two = make_inputs(tmp_path / "two", engine="verl", verl={"ranks": 2}, **changes)
    command, ranks = start(two), 0
    while command.process.poll() is None:
        processes = processes_with(key_of(two.files.folder(CELL)))
        ranks = max(ranks, sum(is_rank(process) for process in processes))
        time.sleep(0.5)
    command.require_success()
    assert ranks == 2
    one = make_inputs(tmp_path / "one", **changes)
    with servers_numbers():
        train_locally(one, CELL)
    records, expected = (read_json_lines(e.files.training_log(CELL)) for e in (two, one))
    assert len(records) == len(expected) == 2
    for ours, theirs in zip(records, expected, strict=True):
        for key in SAMPLED:
            assert ours[key] == pytest.approx(theirs[key]), key
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-3)
        assert ours.get("validation") == pytest.approx(theirs.get("validation"))
    assert weights_apart(two, one) < 0.02


def is_rank(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "ray::WorkerDict" in " ".join(process.cmdline())
    return False


def weights_apart(ours: Experiment, theirs: Experiment) -> float:
    """Norm of the difference of two policies, as a fraction of the norm of all updates."""
    files = ours.files, theirs.files
    policies = [qwen2.to_hub(qwen2.load(one.policy(CELL))) for one in files]
    start = qwen2.to_hub(qwen2.load(theirs.files.policy(base_name("small"))))
    apart = moved = 0.0
    for name, weights in start.items():
        apart += float((policies[0][name] - policies[1][name]).double().square().sum())
        moved += float((policies[1][name] - weights).double().square().sum())
    return (apart / moved) ** 0.5
