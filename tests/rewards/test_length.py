"""The length-discounted reward: 1 - discount * tokens / max_tokens if correct, else 0."""

from fractions import Fraction

import numpy as np
import pytest

from rspo.core.errors import InputError
from rspo.rewards import length_discounted


def test_the_formula_in_exact_arithmetic() -> None:
    tokens = np.arange(0, 3073)
    rewards = length_discounted(np.ones(3073, dtype=bool), tokens, 3072, 0.5)
    for length, reward in zip(tokens.tolist(), rewards.tolist(), strict=True):
        assert reward == pytest.approx(
            float(1 - Fraction(1, 2) * Fraction(length, 3072)), abs=1e-15
        )
    assert rewards[0] == 1.0
    assert rewards[-1] == 0.5


def test_a_wrong_response_earns_nothing_however_short() -> None:
    assert length_discounted([[True, False]], [[9, 0]], 18, 0.5).tolist() == [[0.75, 0.0]]


@pytest.mark.parametrize("tokens", [-1, 19, float("nan")])
def test_an_impossible_length_is_refused(tokens: float) -> None:
    with pytest.raises(InputError, match=r"tokens; allowed: 0 \.\. 18"):
        length_discounted([True, False], [3, tokens], 18, 0.5)
