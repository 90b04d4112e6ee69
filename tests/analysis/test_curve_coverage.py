"""The simulation of the coverage of intervals of whole curves, on few problems."""

import numpy as np
import pytest

from benchmarks import curve_coverage
from rspo.analysis import bootstrap


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enough for a few seconds."""
    monkeypatch.setattr(curve_coverage, "SIZES", [60, 40])


def test_the_true_curve_is_the_mean_over_many_problems_and_seeds(
    few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the base model, against an integral over its normal distribution of logits."""
    monkeypatch.setattr(curve_coverage, "BY_PROBLEM", 0.0)
    monkeypatch.setattr(curve_coverage, "BY_TRAINING", 0.0)
    found = curve_coverage.true_curves(by_seed=0.0)[curve_coverage.BASE]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    wrong = 1 / (1 + np.exp(-2.0 + 1.5 * nodes))
    expected = [
        1 - np.average(wrong**k, weights=weights) for k in range(1, curve_coverage.LARGEST + 1)
    ]
    assert found == pytest.approx(expected, abs=0.005)


def test_intervals_contain_the_truth_and_those_that_are_too_short_do_not(
    few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = curve_coverage.coverage(seeds=5, by_seed=0.1, repeats=15)
    assert min(found.regret, found.excess, found.crossing) > 0.85
    monkeypatch.setattr(bootstrap, "tail_of", lambda _: 0.45)  # a tenth of the resamples is inside
    short = curve_coverage.coverage(seeds=5, by_seed=0.1, repeats=15)
    assert max(short.regret, short.excess, short.crossing) < 0.5
