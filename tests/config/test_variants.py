"""The config's `variants` and `studies`: cells that are trained with other settings."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.pipeline import tasks
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
    assert {DEFAULT, SHORT} <= experiment.every_cell.keys()
    assert not {DEFAULT, SHORT} & experiment.cells.keys()
    assert not {DEFAULT, SHORT} & {*experiment.policies}
    assert experiment.model_of(SHORT) == "small"


def test_the_settings_of_a_training_have_those_of_its_variant_but_not_its_name(
    tmp_path: Path,
) -> None:
    experiment = load(tmp_path)
    default, short = (tasks.train(experiment, name).settings for name in (DEFAULT, SHORT))
    assert short["training"].pop("steps") == 3
    assert default["training"].pop("steps") == 6
    assert short.pop("learning_rate") == 1e-3
    del default["learning_rate"]
    assert short == default


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"epochs": 2}, {"engine": "verl"}, "training.epochs and rewards.false_*: only engine"),
        ({"mini_batch_prompts": 3}, {}, "training: mini_batch_prompts = 3 must divide"),
    ],
)
def test_a_variant_that_is_not_possible_stops_only_its_own_cells(
    tmp_path: Path, changes: dict[str, int], more: dict[str, Any], message: str
) -> None:
    """Because the engine lacks it, or because it does not fit the overrides."""
    experiment = load(tmp_path, variants={"short": {"training": changes}}, **more)
    assert experiment.for_cell(DEFAULT) is experiment
    with pytest.raises(InputError) as caught:
        experiment.for_cell(SHORT)
    assert str(caught.value).startswith(f"config/tiny.yaml: variants.short: {message}")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"variants": {"short": {"training": {"stepz": 3}}}},
            "variants.short: training: unknown key stepz = 3; did you mean steps? Allowed",
        ),
        ({"variants": {"short": {"data": {}}}}, "variants.short.data"),
        ({"variants": {}}, "steps: variant = 'short'; allowed: default"),
        ({"variants": VARIANTS | {"length": {}}}, "variants.length: this name has another meaning"),
        ({"grid": GRID}, "grid.steps: only studies, and entries without a suite, have variants"),
        (
            {"engine": "verl", "training": tiny_world.OVERRIDES["training"] | {"epochs": 2}},
            "training.epochs and rewards.false_*: only engine: local has these",
        ),
        (
            {
                "engine": "verl",
                "training": tiny_world.OVERRIDES["training"] | {"entropy_bonus": 0.01},
            },
            "training.entropy_bonus: engine verl has it with loss_aggregation: token-mean only",
        ),
        (
            {"engine": "verl", "rewards": {"false_accepts_fixed": 0.1}},
            "rewards.false_*: only engine: local has these",
        ),
    ],
)
def test_a_variant_that_cannot_be_is_one_line(
    tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **more).for_cell(SHORT)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_of_several_models_subtracts_objectives_only(tmp_path: Path) -> None:
    cells = [{"model": model, "objective": "grpo", "n": 4} for model in ("small", "medium")]
    contrasts = [{"family": "pairs", "minus": {"grpo": "default"}}]
    study = STUDIES["steps"] | {"cells": cells, "contrasts": contrasts}
    with pytest.raises(
        InputError,
        match="cells: of models small, medium; allowed with several models: no variants, and",
    ):
        load(tmp_path, studies={"pairs": study})


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"objective": "rspo_pass_at_k", "k": 4}, False),  # it begins with 8
        ({"objective": "hitchhiking", "k": 8}, False),  # 3 does not divide 16
        ({"objective": "rspo_pass_at_k", "k": 8}, True),
    ],
)
def test_a_schedule_of_k_needs_a_cell_that_begins_with_it_and_an_n_that_fits(
    tmp_path: Path, spec: dict[str, Any], fits: bool
) -> None:
    cell = {"model": "small", "n": 16, "variant": ["default", "annealed"]} | spec
    studies = {"steps": STUDIES["steps"] | {"cells": [cell]}}
    variants = {"annealed": {"training": {"k_schedule": [8, 1]}}}
    experiment = load(tmp_path, studies=studies, variants=variants)
    default, annealed = (one.name for one in experiment.cells_of("steps"))
    assert experiment.for_cell(default) is experiment
    if fits:
        assert experiment.for_cell(annealed).config.training.k_schedule == (8, 1)
        return
    with pytest.raises(InputError, match=rf"k_schedule = \[8, 1\]: {annealed} needs one that"):
        experiment.for_cell(annealed)


def test_an_optional_setting_decides_a_training_only_where_it_is_set(tmp_path: Path) -> None:
    """So cells that were trained before the setting existed stay as they are."""
    changes = {"training": {"entropy_bonus": 0.01}, "rewards": {"false_accepts_fixed": 0.1}}
    experiment = load(tmp_path, variants={"short": changes})
    before, after = (tasks.train(experiment, name).settings for name in (DEFAULT, SHORT))
    assert after.pop("false_accepts_fixed") == 0.1
    assert after["training"].pop("entropy_bonus") == 0.01
    assert after == before
