"""What a finished training warns of, above all of a sampler without the actor's weights.

tests/training/verl/test_trainer.py has a sampler with old weights.
"""

from typing import Any

import pytest

from rspo.training.logs import MOST, clipping_warning, sampler_warning, steps_above


def records_of(differences: list[float]) -> list[dict[str, Any]]:
    return [
        {"step": step, "sampler": {"difference": value}}
        for step, value in enumerate(differences, 1)
    ]


def test_a_sampler_that_is_wrong_from_the_first_step_exceeds_the_bound() -> None:
    assert steps_above(records_of([MOST * 0.9] * 2)) == []
    assert steps_above(records_of([MOST * 1.1] * 2)) == [1, 2]
    assert steps_above(records_of([float("nan"), 0.001])) == [1]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_the_bound_is_that_of_the_first_difference_that_is_a_number(wrong: float) -> None:
    assert steps_above(records_of([wrong, 0.01, 0.02, 0.04])) == [1, 4]
    assert steps_above(records_of([wrong, wrong])) == [1, 2]


def test_the_warning_names_the_cells_and_their_first_step() -> None:
    logs = {"a": records_of([0.01, 0.02]), "b": records_of([0.01, 0.02, 0.2, 0.3]), "c": [{}]}
    assert ": b (2 steps, first 3)." in sampler_warning(logs)
    assert sampler_warning({"a": logs["a"], "c": []}) == ""


def test_cells_with_more_than_half_of_their_gradients_clipped_are_named() -> None:
    assert clipping_warning({"a": 0.5, "b": 0.6, "c": 1.0}).endswith(": b (60%), c (100%).")
    assert clipping_warning({"a": 0.5}) == ""
