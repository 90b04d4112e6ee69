"""`models.<model>.gpus`: a model's cells train on as many GPUs, and are the same cells."""

from pathlib import Path
from typing import Any

import pytest

from rspo.core.errors import InputError
from rspo.pipeline import tasks
from tests.support import paper_scale

SMALL = "qwen2.5-math-1.5b"
LARGE = "qwen2.5-math-7b"
CELL = f"{SMALL}--rspo-pass--k4--n16--s0"
LARGE_CELL = f"{LARGE}--rspo-pass--k4--n16--s0"
STRESS = f"{SMALL}--rspo-pass--k4--n16--stress--s0"


def on(gpus: int | None) -> dict[str, Any]:
    return {"models": {SMALL: {"gpus": gpus}}}


@pytest.mark.parametrize(
    ("changes", "small", "large"),
    [
        ({}, 4, 8),
        (on(8), 8, 8),
        (on(2), 2, 8),
        (on(None) | {"verl": {"ranks": 1}}, 1, 8),
        ({"verl": {"device": "cpu", "ranks": 2}}, 0, 0),
        ({"engine": "local", "sampler": "vllm"}, 0, 0),
    ],
)
def test_a_cell_has_the_gpus_of_its_model(
    tmp_path: Path, changes: dict[str, Any], small: int, large: int
) -> None:
    experiment = paper_scale.load(tmp_path, **changes)
    assert experiment.gpus_of(CELL) == experiment.gpus_of(STRESS) == small
    assert experiment.gpus_of(LARGE_CELL) == large


def test_the_key_of_the_ranks_is_the_one_that_counts(tmp_path: Path) -> None:
    assert paper_scale.load(tmp_path).ranks_key(CELL) == "models.qwen2.5-math-1.5b.gpus"
    on_cpus = paper_scale.load(tmp_path, verl={"device": "cpu", "ranks": 2})
    assert on_cpus.ranks_key(CELL) == "verl.ranks"
    without = paper_scale.load(tmp_path, models={"qwen2.5-math-1.5b": {"gpus": None}})
    assert without.ranks_key(CELL) == "verl.ranks"


def test_the_config_with_which_a_cell_is_trained_has_as_many_ranks(tmp_path: Path) -> None:
    """The processes of verl read `verl.ranks`. On CPUs, `gpus` has no effect."""
    experiment = paper_scale.load(tmp_path)
    for cell, ranks in ((CELL, 4), (STRESS, 4), (LARGE_CELL, 8)):
        verl = experiment.for_cell(cell).config.verl
        assert verl is not None
        assert verl.ranks == ranks
    on_cpus = paper_scale.load(tmp_path, verl={"device": "cpu", "ranks": 2})
    verl = on_cpus.for_cell(CELL).config.verl
    assert verl is not None
    assert verl.ranks == 2


def test_another_number_of_gpus_trains_nothing_again_and_changes_no_setting(
    tmp_path: Path,
) -> None:
    """Not even the number of prompts per update, or the learning rate."""
    few = paper_scale.load(tmp_path)
    many = paper_scale.load(tmp_path, **on(8))
    for cell in few.every_cell:
        assert tasks.train(few, cell).settings == tasks.train(many, cell).settings
        before = few.for_cell(cell).config
        after = many.for_cell(cell).config
        assert before.training == after.training
        assert before.models[SMALL].learning_rate == after.models[SMALL].learning_rate


def test_the_number_of_gpus_is_positive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"models\.{SMALL}\.gpus"):
        paper_scale.load(tmp_path, **on(0))
