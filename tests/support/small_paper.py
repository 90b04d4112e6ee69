"""A small experiment with all results, made in this process in the current folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rspo.analysis.write import write_claims
from rspo.config.experiment import Experiment
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.figures import draw, in_all
from rspo.pipeline.cost import write_cost_table
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import tiny_world

_CELLS = [
    {"model": "small", "objective": "policy_gradient", "n": 8},
    {"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4], "n": 8},
    {"model": "small", "objective": "hitchhiking", "k": [2, 4], "n": 8},
]
_OTHERS = ("scalability", "model_size", "contamination_free", "max_at_k", "grpo", "dropping")
_OTHERS += ("without_k",)
_GRID = {**dict.fromkeys(_OTHERS), "main": {"suite": "standard", "seeds": 1, "cells": _CELLS}}


def load(rewards: Mapping[str, Any] | None = None) -> Experiment:
    """The tiny scale with one grid entry of five cells, and sizes for tests.

    Args:
        rewards: changes of the section `rewards` of the config.
    """
    if not Path("config").exists():
        tiny_world.write_config(Path(), grid=_GRID, base_per_seed=False)
    return Experiment.load("tiny", {"rewards": dict(rewards)} if rewards else {})


def make() -> Experiment:
    """Every step up to the figures."""
    experiment = load()
    for data_set in experiment.data_sets:
        prepare(experiment, data_set)
    make_base_policy(experiment, "small")
    for cell in experiment.cells:
        train(experiment, cell)
    for policy in experiment.policies:
        sample_suite(experiment, policy, "standard")
        score(experiment, policy, "standard")
        curves(experiment, policy, "standard")
    write_cost_table(experiment)
    write_claims(experiment)
    for figure in in_all(experiment):
        draw(experiment, figure)
    return experiment
