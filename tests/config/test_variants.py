"""The config's `variants` and `studies`: cells that are trained with other settings."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from tests.support import tiny_world

STUDIES: dict[str, Any] = {
    "steps": {
        "title": "Steps",
        "suite": "standard",
        "contrasts": [{"family": "steps", "minus": "default"}],
        "cells": [
            {
                "model": "small",
                "objective": "policy_gradient",
                "n": 4,
                "variant": ["default", "short"],
            }
        ],
    }
}
GRID = {"steps": {key: STUDIES["steps"][key] for key in ("suite", "cells")}}
VARIANTS = {"short": {"training": {"steps": 3}, "models": {"small": {"learning_rate": 1e-3}}}}
DEFAULT, SHORT = "small--policy-gradient--k1--n4--s0", "small--policy-gradient--k1--n4--short--s0"


def load(root: Path, **more: Any) -> Experiment:
    return tiny_world.load(root, **({"studies": STUDIES, "variants": VARIANTS} | more))


def test_a_study_has_a_cell_for_each_variant_and_the_grid_has_none_of_them(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert {DEFAULT, SHORT} <= experiment.study_cells.keys()
    assert not {DEFAULT, SHORT} & experiment.cells.keys()
    assert not {DEFAULT, SHORT} & {*experiment.policies}
    assert experiment.model_of(SHORT) == "small"


def test_the_settings_of_a_training_have_those_of_its_variant_but_not_its_name(
    tmp_path: Path,
) -> None:
    experiment = load(tmp_path)
    default, short = (steps.train(experiment, name).settings for name in (DEFAULT, SHORT))
    assert short["training"].pop("steps") == 3
    assert default["training"].pop("steps") == 6
    assert short.pop("learning_rate") == 1e-3
    del default["learning_rate"]
    assert short == default


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"epochs": 2}, {"engine": "verl"}, "training.epochs = 2: only engine: local has this"),
        ({"mini_batch_prompts": 3}, {}, "training: mini_batch_prompts = 3 must divide"),
    ],
)
def test_a_variant_that_is_not_possible_stops_only_its_own_cells(
    tmp_path: Path, changes: dict[str, int], more: dict[str, Any], message: str
) -> None:
    """Because the engine lacks it, or because it does not fit the overrides."""
    experiment = load(tmp_path, variants={"short": {"training": changes}}, **more)
    assert experiment.of_cell(DEFAULT) is experiment
    with pytest.raises(InputError) as caught:
        experiment.of_cell(SHORT)
    assert str(caught.value).startswith(f"config/tiny.yaml: variants.short: {message}")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"variants": {"short": {"training": {"stepz": 3}}}},
            "variants.short: unknown key training.stepz = 3; did you mean steps?",
        ),
        ({"variants": {"short": {"data": {}}}}, "variants.short.data"),
        ({"variants": {}}, "steps: variant = 'short'; allowed: default"),
        ({"variants": VARIANTS | {"length": {}}}, "variants.length: this name has another meaning"),
        ({"grid": GRID}, "grid.steps: only studies, and entries without a suite, have variants"),
        (
            {"engine": "verl", "training": tiny_world.OVERRIDES["training"] | {"epochs": 2}},
            "training.epochs = 2: only engine: local has this",
        ),
        (
            {"engine": "verl", "rewards": {"false_rejects": 0.1}},
            "rewards = {'false_accepts': 0.0, 'false_rejects': 0.1}: only engine: local has this",
        ),
    ],
)
def test_a_variant_that_cannot_be_is_one_line(
    tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
