"""The same tiny cell for 20 steps through verl and through the local engine, three seeds of each.

Both learn, and their reward curves agree within the variation over seeds. Every step uses the same
20 prompts, so changes of the reward come from learning and hardly from chance. About five minutes.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.training.train import train as train_locally
from tests.support import ROOT, tiny_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SEEDS, STEPS, WINDOW, PROMPTS = 3, 20, 5, 20
RATE = 4e-4
# The two-sided quantile 1 - 0.01 / 4 of Student's t with 2 * (3 - 1) degrees of freedom: with equal
# engines, at most 1 % of runs have a significant difference in one of the four windows.
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
    return tiny_world.load_prepared(root, **changes(**more))


def windows(experiment: Experiment) -> NDArray[np.float64]:
    """Mean reward of each window of steps, (seeds, windows)."""
    rewards = [
        [record["reward"] for record in read_json_lines(experiment.training_log(cell))]
        for cell in experiment.cells
    ]
    means: NDArray[np.float64] = np.array(rewards).reshape(SEEDS, -1, WINDOW).mean(axis=2)
    return means


def too_far_apart(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Windows with a significant difference: a t test of each, with the seeds as the sample."""
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
    for cell in experiment.cells:
        subprocess.run(
            tiny_world.command("train", cell, engine="verl", **changes()),
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
        )
    means = windows(experiment)
    print("reward of verl, (seeds, windows):", means.round(3).tolist())
    return means


def test_both_engines_learn(local: NDArray[np.float64], through_verl: NDArray[np.float64]) -> None:
    """With every seed, the reward of the last steps is more than 1.5 times that of the first."""
    for rewards in (local, through_verl):
        assert (rewards[:, -1] > 1.5 * rewards[:, 0]).all()


def test_reward_curves_agree_within_the_variation_over_seeds(
    local: NDArray[np.float64], through_verl: NDArray[np.float64]
) -> None:
    print("reward of the local engine, (seeds, windows):", local.round(3).tolist())
    assert not too_far_apart(through_verl, local).any()


def test_a_third_of_the_learning_rate_is_detected(
    local: NDArray[np.float64], tmp_path: Path
) -> None:
    """Shows that the comparison can fail."""
    experiment = make(tmp_path, rate=RATE / 3)
    for cell in experiment.cells:
        train_locally(experiment, cell)
    assert too_far_apart(windows(experiment), local).any()
