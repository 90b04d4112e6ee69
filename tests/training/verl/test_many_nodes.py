"""A cell trained with verl on two nodes of a real SLURM allocation, and on one node.

Three minutes on two quiet cores: verl starts three times.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError, LostProcess
from rspo.core.files import read_json_lines
from rspo.training.verl.ray_cluster import (
    JobStep,
    _wait_for,
    current_job_step,
    dismiss,
    folder_of,
    join,
)
from rspo.training.verl.run import engine_of_node
from tests.support import ROOT, tiny_world
from tests.support.slurm_cluster import Cluster, require_slurm, started

CELL = "small--rspo-pass--k4--n16--s0"
STEPS = 3
TRAINING = tiny_world.OVERRIDES["training"] | {"steps": STEPS, "checkpoint_every": 1}
STEP = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}


@pytest.mark.parametrize(
    ("nodes", "environment", "message"),
    [
        (2, {}, "verl.nodes = 2, but this runs as 1 process"),
        (2, {"SLURM_JOB_NUM_NODES": "2"}, "srun --nodes=2 --ntasks=2 --ntasks-per-node=1"),
        (1, STEP, "verl.nodes = 1, but this runs as 2 process.* on 2 node.*allowed: verl.nodes=2"),
        (3, STEP, "verl.nodes = 3, but this runs as 2 process"),
        (2, STEP | {"SLURM_STEP_NUM_TASKS": "4"}, "this runs as 4 process.* on 2 node"),
    ],
)
def test_other_nodes_than_in_the_config_are_an_error(
    nodes: int, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        current_job_step(nodes, environment)


def test_each_start_of_a_job_has_its_own_identifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where SLURM's count of restarts is missing."""
    monkeypatch.setattr("rspo.training.verl.ray_cluster._hosts", lambda nodes: ["n1", "n2"])
    job = STEP | {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    attempts = [job, job | {"RSPO_TRY": "1"}, job | {"RSPO_TRY": "2"}]
    attempts.append(job | {"SLURM_RESTART_COUNT": "1"})
    assert len({current_job_step(2, environment).attempt for environment in attempts}) == len(
        attempts
    )


def test_a_node_that_does_not_join_is_reported() -> None:
    with pytest.raises(LostProcess, match=r"node gpu3 of the allocation has not joined Ray"):
        _wait_for(["gpu1", "gpu2", "gpu3"], lambda: ["gpu2", "gpu1"], seconds=0)
    _wait_for(["gpu1", "gpu2"], lambda: ["gpu2", "gpu1"], seconds=0)


def test_other_nodes_leave_when_the_first_one_fails(tmp_path: Path) -> None:
    first, second, other_attempt = (
        JobStep(rank, ("gpu1", "gpu2"), attempt)
        for rank, attempt in ((0, "7.0.0"), (1, "7.0.0"), (1, "8"))
    )
    dismiss(tmp_path, first)
    join(tmp_path / "cell", tmp_path, second)
    with pytest.raises(LostProcess, match="the first node of the allocation has not started Ray"):
        join(tmp_path / "cell", tmp_path, other_attempt, seconds=0)


def test_other_nodes_leave_when_the_cell_is_finished_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (JobStep(rank, ("gpu1", "gpu2"), "7.0.0") for rank in (0, 1))
    monkeypatch.setattr("rspo.training.verl.ray_cluster.current_job_step", lambda *_: first)
    experiment = tiny_world.load(tmp_path, engine="verl")
    cell = next(iter(experiment.cells))
    with engine_of_node(experiment, cell) as engine:
        assert engine is not None  # and trains nothing
    join(experiment.folder(cell), experiment.checkpoint(cell), second, seconds=0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A small experiment with problems and a base policy."""
    root = tmp_path_factory.mktemp("nodes")
    return tiny_world.load_prepared(root, training=TRAINING, engine="verl")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    require_slurm()
    with started(nodes=2) as cluster:
        yield cluster


def command(nodes: int, ranks_per_node: int) -> list[str]:
    verl = {"nodes": nodes, "ranks_per_node": ranks_per_node}
    return tiny_world.command("train", CELL, verl=verl)


def start_on_two_nodes(slurm: Cluster, root: Path, log: Path) -> "subprocess.Popen[bytes]":
    srun = ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--gpus-per-node=h800:8"]
    return subprocess.Popen(
        [*srun, "--mem=8G", "--partition=gpu", "--label", *command(nodes=2, ranks_per_node=1)],
        cwd=root,
        env=slurm.environment | {"PYTHONPATH": str(ROOT)},
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )


def of_the_nodes(text: str, slurm: Cluster) -> dict[str, list[psutil.Process]]:
    """Processes with this text in their command line, by node."""
    matching: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        try:
            environment, words = process.environ(), process.cmdline()
        except psutil.Error:
            continue
        ours = environment.get("SLURM_CONF", "").startswith(str(slurm.folder))
        if ours and "SLURMD_NODENAME" in environment and text in " ".join(words):
            matching.setdefault(environment["SLURMD_NODENAME"], []).append(process)
    return matching


def wait_for_ranks(slurm: Cluster, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait for one process of the actor on each node."""
    while sorted(of_the_nodes("ray::WorkerDict", slurm)) != ["n1", "n2"]:
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_nodes_and_one_give_the_same_policy(
    world: Experiment, slurm: Cluster, tmp_path: Path
) -> None:
    """On two nodes with one rank each, the second node is lost once; on one node, two ranks."""
    root, log = world.reports.parent, tmp_path / "log"
    process = start_on_two_nodes(slurm, root, log)
    wait_for_ranks(slurm, process, log)
    while not (world.checkpoint(CELL) / "latest_checkpointed_iteration.txt").exists():
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.1)
    for lost in of_the_nodes("", slurm)["n2"]:  # as when it loses power
        with suppress(psutil.NoSuchProcess):
            lost.kill()
    assert process.wait(180) != 0
    lines = [line for line in log.read_text().splitlines() if "rspo: error:" in line]
    assert len(lines) == 1, lines
    assert "has left Ray" in lines[0] or "has died" in lines[0]
    assert "; the same command resumes from step " in lines[0]
    wait_until_nothing_is_left(slurm, world, ranks=1)  # the second node's stay

    process = start_on_two_nodes(slurm, root, log)
    wait_for_ranks(slurm, process, log)
    assert process.wait(600) == 0, log.read_text()[-3000:]
    wait_until_nothing_is_left(slurm, world)
    records = read_json_lines(world.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))

    one_node = replace(world, results=tmp_path / "results" / "tiny")
    one_node.results.parent.mkdir()
    (tmp_path / "config").symlink_to(root / "config")
    for name in ("problems", "cells/small--base"):
        (one_node.results / name).parent.mkdir(parents=True, exist_ok=True)
        (one_node.results / name).symlink_to(world.results / name)
    subprocess.run(
        command(nodes=1, ranks_per_node=2),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=600,
    )
    assert [record["reward"] for record in read_json_lines(one_node.training_log(CELL))] == [
        record["reward"] for record in records
    ]
    two, one = (load_file(e.policy(CELL) / "model.safetensors") for e in (world, one_node))
    assert any(record["reward"] for record in records)
    base = load_file(world.policy("small--base") / "model.safetensors")
    for name in one:
        torch.testing.assert_close(two[name].float(), one[name].float(), rtol=0, atol=1e-5)
    moved = max(float((one[name].float() - base[name].float()).abs().max()) for name in one)
    assert moved > 3e-4  # the first update of Adam is about the learning rate, 4e-4


def wait_until_nothing_is_left(slurm: Cluster, world: Experiment, ranks: int = 2) -> None:
    deadline, cell = time.monotonic() + 60, world.folder(CELL)
    folders = [folder_of(cell, rank) for rank in range(ranks)]
    while remaining := of_the_nodes("", slurm) or [folder for folder in folders if folder.exists()]:
        assert time.monotonic() < deadline, remaining
        time.sleep(0.2)
