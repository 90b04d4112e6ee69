"""The same tiny cell for 20 steps through verl and through the local engine, three seeds of each.

Both learn, and the curves of their rewards agree within the spread of the seeds. Every step uses
the same 20 prompts, so the reward of a step changes by what was learnt and hardly by chance. About
five minutes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.datasets.prepare import prepare
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train as train_locally
from tests.support import ROOT, tiny_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SEEDS, STEPS, WINDOW, PROMPTS = 3, 20, 5, 20
RATE = 4e-4
# 1 - 0.01 / 4 of Student's t with 2 * (3 - 1) degrees of freedom lies within it: engines that are
# alike are told apart in one of the four windows with a chance of 1 % at most.
LIMIT = 6.76


def changes(rate: float = RATE) -> dict[str, Any]:
    spec = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16}
    left_out = ("scalability", "model_size", "contamination_free", "max_at_k", "grpo")
    return {
        "seeds": SEEDS,
        "models": {
            "small": {
                "learning_rate": rate,
                "scratch": {"examples": 4000, "batch": 64, "steps": 250},
            }
        },
        "data": {"train": {"generated": {"problems": PROMPTS // 5}}},
        "training": {
            **{"steps": STEPS, "prompts_per_step": PROMPTS, "mini_batch_prompts": PROMPTS // 2},
            "checkpoint_every": STEPS,
        },
        "grid": {
            "main": {"suite": "standard", "cells": [spec]},
            **dict.fromkeys(left_out),
        },
    }


def make(root: Path, **more: Any) -> Experiment:
    experiment = tiny_world.load(root, **changes(**more))
    prepare(experiment, "train")
    make_base_policy(experiment, "small")
    return experiment


def windows(experiment: Experiment) -> NDArray[np.float64]:
    """Mean reward of each window of steps, (seeds, windows)."""
    rewards = [
        [record["reward"] for record in read_json_lines(experiment.training_log(cell))]
        for cell in experiment.cells
    ]
    found: NDArray[np.float64] = np.array(rewards).reshape(SEEDS, -1, WINDOW).mean(axis=2)
    return found


def too_far_apart(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Windows whose means differ by more than the spread of the seeds explains.

    A t test of each window with the seeds as the sample.
    """
    variance = (ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / 2
    apart: NDArray[np.float64] = abs(ours.mean(axis=0) - theirs.mean(axis=0))
    return apart > LIMIT * np.sqrt(2 * variance / SEEDS)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    experiment = make(tmp_path_factory.mktemp("local"))
    for cell in experiment.cells:
        train_locally(experiment, cell)
    return windows(experiment)


@pytest.fixture(scope="module")
def through_verl(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    root = tmp_path_factory.mktemp("verl")
    experiment = make(root)
    overrides = tiny_world.OVERRIDES | changes() | {"engine": "verl"}
    sets = [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    for cell in experiment.cells:
        subprocess.run(
            [sys.executable, "-m", "rspo.cli", "train", cell, *sets],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
        )
    found = windows(experiment)
    print("reward through verl, window by window, each seed:", found.round(3).tolist())
    return found


def test_both_engines_learn(local: NDArray[np.float64], through_verl: NDArray[np.float64]) -> None:
    """Every seed ends with half as much again as the mean reward of its first steps, and more."""
    for rewards in (local, through_verl):
        assert (rewards[:, -1] > 1.5 * rewards[:, 0]).all()


def test_their_curves_agree_within_the_spread_of_seeds(
    local: NDArray[np.float64], through_verl: NDArray[np.float64]
) -> None:
    print("reward of the local engine, the same:", local.round(3).tolist())
    assert not too_far_apart(through_verl, local).any()


def test_a_third_of_the_learning_rate_would_not_agree(
    local: NDArray[np.float64], tmp_path: Path
) -> None:
    """So the comparison can fail."""
    experiment = make(tmp_path, rate=RATE / 3)
    for cell in experiment.cells:
        train_locally(experiment, cell)
    assert too_far_apart(windows(experiment), local).any()
