"""Small studies, trained and evaluated."""

from pathlib import Path
from typing import Any

import numpy as np

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.datasets.prepare import prepare
from rspo.estimators import pass_at_k
from rspo.evaluation.read_outcomes import policy_scores
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.training.train import train
from tests.support import tiny_world


def make(study: str, overrides: dict[str, Any]) -> Experiment:
    """Train and evaluate the cells of a study in the current folder, and run `rspo study`."""
    experiment = tiny_world.load_prepared(Path(), **overrides)
    for benchmark in experiment.benchmarks_of("standard"):
        prepare(experiment, benchmark)
    for cell in experiment.cells_of(study):
        train(experiment, cell.name)
    for policy in experiment.policies_of(study):
        sample_suite(experiment, policy, "standard")
        score(experiment, policy, "standard")
    assert main(["study", study, *tiny_world.options(**overrides), "--force"]) == 0
    return experiment


def mean_pass_at_k(experiment: Experiment, policy: str, k: int) -> float:
    """Pass@k of a policy on all problems, from its scores."""
    correct = [
        policy_scores(experiment, policy, name).correct
        for name in experiment.benchmarks_of("standard")
    ]
    return float(np.mean(pass_at_k(8, np.concatenate(correct).sum(axis=1), k)))
