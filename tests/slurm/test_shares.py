"""A training requests the GPUs of its cell, with their share of the CPUs and memory of the profile.

By hand: the shipped profile has 8 GPUs, 64 CPUs and 500,000 MB. A cell of 1.5B has 4 GPUs, one of
7B has 8.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.slurm.launch import Launch
from rspo.slurm.profile import read_profile, share_of
from tests.support import ROOT, slurm_world

SMALL = "qwen2.5-math-1.5b--rspo-pass--k4--n16--s0"
LARGE = "qwen2.5-math-7b--rspo-pass--k4--n16--s0"
HALF = {"gres": "gpu:h800:4", "mem_mb": 250000, "cpus_per_task": 32}
WHOLE = {"gres": "gpu:h800:8", "mem_mb": 500000, "cpus_per_task": 64}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without SLURM, with the paper's config."""
    folder = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    monkeypatch.chdir(folder)
    return folder


def resources(project: Path, *settings: str) -> dict[str, dict[str, Any]]:
    """What Snakemake's executor plugin gets for a cell of each model."""
    words = [f"results/paper/cells/{cell}/policy" for cell in (SMALL, LARGE)]
    program = [sys.executable, "-m", "tests.support.snakemake_resources", "train", *words]
    if settings:
        program += ["--config", *settings]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        program, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.pop("cell"): line for line in lines}


def part(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {key: found.get(key) for key in expected}


def test_snakemake_requests_half_of_a_node_for_a_cell_on_four_gpus(project: Path) -> None:
    found = resources(project)
    assert part(found[SMALL], HALF) == HALF
    assert part(found[LARGE], WHOLE) == WHOLE
    # What does not depend on GPUs.
    for name in ("runtime", "slurm_partition", "slurm_extra"):
        assert found[SMALL][name] == found[LARGE][name]


def test_eight_gpus_are_one_setting_away(project: Path) -> None:
    found = resources(project, 'set=models="{qwen2.5-math-1.5b: {gpus: 8}}"')
    assert part(found[SMALL], WHOLE) == WHOLE


def test_an_option_of_sbatch_and_an_amount_that_is_computed_are_shared_too(project: Path) -> None:
    """As docs say for a type of GPU with a hyphen."""
    slurm_world.edit_profile(
        project,
        {
            "set-resources.train.gres": None,
            "set-resources.train.slurm_extra": "'--gpus-per-node=h800-80:8 --signal=USR1@600'",
            "set-resources.train.mem_mb": "400000 * attempt",
        },
    )
    found = resources(project)
    assert found[SMALL]["slurm_extra"] == "--gpus-per-node=h800-80:4 --signal=USR1@600"
    assert found[LARGE]["slurm_extra"] == "--gpus-per-node=h800-80:8 --signal=USR1@600"
    assert (found[SMALL]["mem_mb"], found[LARGE]["mem_mb"]) == (200000, 400000)


def test_without_gpus_every_cell_requests_what_the_profile_says(project: Path) -> None:
    found = resources(project, "set=verl.device=cpu")
    assert part(found[SMALL], WHOLE) == WHOLE


def test_the_doctor_asks_slurm_for_what_snakemake_requests(project: Path) -> None:
    launch = Launch.read(Experiment.load("paper"))
    large, small = [request for request in launch.used if request.rule == "train"]
    for request, expected in ((large, WHOLE), (small, HALF)):
        assert f"--gres={expected['gres']}" in request.options
        assert f"--mem={expected['mem_mb']}" in request.options
        assert f"--cpus-per-task={expected['cpus_per_task']}" in request.options
    assert small.key == "slurm/config.yaml: set-resources.train for 4 GPUs"
    assert small.signal_seconds == large.signal_seconds == 600
    one_size = Launch.read(Experiment.load("paper", {"models": {"qwen2.5-math-1.5b": {"gpus": 8}}}))
    assert [request.gpus for request in one_size.used if request.rule == "train"] == [8]


@pytest.mark.parametrize(
    ("value", "gpus", "of", "expected"),
    [
        ("gpu:8", 4, 8, "gpu:4"),
        ("gpu:a100:16", 2, 16, "gpu:a100:2"),
        ("--signal=USR1@600 --gpus-per-node=8", 1, 8, "--signal=USR1@600 --gpus-per-node=1"),
        (64, 3, 8, 24),
        (50, 3, 8, 19),  # 18.75, rounded up
    ],
)
def test_a_share_is_that_of_the_gpus(value: Any, gpus: int, of: int, expected: Any) -> None:
    assert share_of(value, gpus, of) == expected


def test_a_request_does_not_grow(project: Path) -> None:
    request = read_profile()[1]["train"]
    assert request.share(16) is request
    assert request.share(8) is request
    assert read_profile()[1]["default-resources"].share(4).gpus == 0
