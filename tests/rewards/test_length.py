"""The reward `length`: 1 - discount * tokens / max_tokens if correct, else 0."""

from fractions import Fraction

import numpy as np
import pytest

from rspo.config.experiment import Experiment
from rspo.rewards.configured import rewards_of
from tests.support import ROOT

CONFIG = Experiment.load("tiny", {"rewards": {"length_discount": 0.3}}, root=ROOT).config
LIMIT = CONFIG.sampling.max_response_tokens


@pytest.mark.parametrize("correct", [True, False])
def test_the_formula_in_exact_arithmetic(correct: bool) -> None:
    tokens = list(range(LIMIT + 1))
    found = rewards_of(CONFIG, "length", np.full(len(tokens), correct), tokens, list)
    expected = [correct * (1 - Fraction(3, 10) * Fraction(length, LIMIT)) for length in tokens]
    assert found == pytest.approx([float(reward) for reward in expected], abs=1e-15)
