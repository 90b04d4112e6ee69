"""With a base model for each training seed, differences are formed within a seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.analysis import claims, studies
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.estimators import pass_at_k
from rspo.evaluation.statistics import mean_of_scores
from rspo.figures.methods import methods_of
from tests.support import ROOT, planted

CELLS = [("policy_gradient", 1, 16), ("rspo_pass_at_k", 4, 16)]
STUDY = {
    "title": "Two k",
    "suite": "standard",
    "contrasts": [{"family": "a", "minus": "base", "k": [4]}],
    "cells": [{"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4], "n": 16}],
}


def load(root: Path, seeds: int = 3, **more: Any) -> Experiment:
    planted.load(root, grid_of={"main": CELLS}, studies={"ks": STUDY})
    return Experiment.load("tiny", {"seeds": seeds, "base_per_seed": True} | more, root=root)


def values(experiment: Experiment, policy: str, k: int) -> np.ndarray:
    """Pass@k of each problem."""
    counts = [
        planted.scores_of(experiment, policy, name).correct.sum(axis=1)
        for name in experiment.benchmarks_of("standard")
    ]
    return np.asarray(pass_at_k(planted.SAMPLES, np.concatenate(counts), k))


def test_the_base_model_of_each_seed_is_subtracted_from_the_cells_of_that_seed(
    tmp_path: Path,
) -> None:
    experiment = load(tmp_path)
    planted.plant_scores(experiment, planted.as_claimed)
    plan = [one for one in claims.CLAIMS["C10"].plan(experiment) if one.where == "pooled"]
    bases = ["small--base", "small--s1--base", "small--s2--base"]
    for one in plan:
        cells = sorted(one.terms[0].method.policies)
        (k,) = one.ks
        differences = np.array(
            [
                values(experiment, cell, k) - values(experiment, base, k)
                for cell, base in zip(cells, bases, strict=True)
            ]
        )
        expected = mean_of_scores(differences, (160, 160))
        row = Measurer(experiment).measure(one)
        assert row["estimate"] == pytest.approx(differences.mean())
        assert row["error"] == pytest.approx(expected.error)
        assert row["error_seeds"] == pytest.approx(differences.mean(axis=1).std(ddof=1) / 3**0.5)
        assert row["seeds"] == 3


def test_the_level_of_the_base_models_has_an_error_over_seeds(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    planted.plant_scores(experiment, planted.as_claimed)
    plan = studies.planned(experiment, "ks", studies.lines_of(experiment, "ks"))
    (level,) = [one for one in plan if one.method_a == "base" and one.ks == (4,)]
    row = Measurer(experiment).measure(level)
    means = [values(experiment, base, 4).mean() for base in experiment.bases_of("ks")]
    assert row["seeds"] == 3
    assert row["estimate"] == pytest.approx(np.mean(means))
    assert row["error_seeds"] == pytest.approx(np.std(means, ddof=1) / 3**0.5)


def test_base_models_are_one_line_of_a_figure(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    *_, base = methods_of(experiment, experiment.policies_of("main"))
    assert (base.label, base.policies) == (
        "Base",
        ("small--base", "small--s1--base", "small--s2--base"),
    )
    assert {experiment.model_of(policy) for policy in base.policies} == {"small"}


def test_only_seeds_that_a_grid_has_need_a_base_model(tmp_path: Path) -> None:
    experiment = load(tmp_path, seeds=1)
    assert experiment.bases_of("main") == ["small--base"]
    assert list(experiment.bases) == ["small--base"]


def test_a_published_model_with_a_start_has_one_for_each_training_seed() -> None:
    """Of the scale of published models."""
    experiment = Experiment.load("pretrained", {"seeds": 2}, root=ROOT)
    bases = ["smollm2-135m--base", "smollm2-135m--s1--base"]
    assert experiment.bases_of("main") == bases
    seeds = []
    for name in ("smollm2-135m", "smollm2-135m--s1"):
        start = experiment.pretrained(name)[1].start
        assert start is not None
        seeds.append(start.seed)
    assert seeds == [0, 1]
    # Intervals over seeds do not cover base models then.
    assert experiment.varied_by_seed == "supervised start"


def test_a_published_model_without_a_start_has_one_base_policy() -> None:
    overrides = {"seeds": 2, "models": {"smollm2-135m": {"start": None}}}
    experiment = Experiment.load("pretrained", overrides, root=ROOT)
    assert set(experiment.bases) == {"smollm2-135m--base"}
    assert not experiment.has_base_per_seed
    assert experiment.varied_by_seed == ""


def test_with_verl_all_seeds_start_from_one_base_policy(tmp_path: Path) -> None:
    experiment = load(tmp_path, engine="verl")
    assert experiment.bases_of("main") == ["small--base"]
    assert not experiment.has_base_per_seed
    local = load(tmp_path / "local")
    assert local.has_base_per_seed
    assert local.varied_by_seed == "base model"
