"""Curves: estimates over problems with their errors, from scores only."""

import re
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import CURVES, read_frame
from rspo.evaluation.curves import curves
from rspo.evaluation.pass_at_k import curve_points
from rspo.evaluation.statistics import ENOUGH_PROBLEMS, resampled_problems
from tests.support import tiny_world
from tests.support.exact import max_at_k_estimate
from tests.support.outcomes import outcomes_of
from tests.support.table_rows import Row, random_scores, write_scores

POLICY = "small--base"
FAMILIES = ("linear", "multiply", "countdown", "divide", "sequence")
SCORES = {family: random_scores(seed) for seed, family in enumerate(FAMILIES)}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """A small experiment with random scores of the base policy on every benchmark."""
    experiment = tiny_world.load(tmp_path)
    write_scores(experiment, POLICY, "standard", SCORES)
    return experiment


def curves_of(experiment: Experiment, policy: str = POLICY) -> pd.DataFrame:
    curves(experiment, policy, "standard")
    return read_frame(experiment.files.curves(policy, "standard"), CURVES)


def points(correct: Any, rewards: Any, k: int, resamples: int = 10, seed: int = 0) -> list[Row]:
    """The points of Pass@k and of Max@k."""
    outcomes = outcomes_of(correct, rewards)
    return curve_points(outcomes, ("pass_at_k", "max_at_k"), [k], resamples, seed)


def test_estimates_are_means_over_problems(experiment: Experiment) -> None:
    """Compared with each problem's exact estimate; pooled problems have equal weight."""
    frame = curves_of(experiment).set_index(["benchmark", "metric", "k"])
    assert len(frame) == 6 * 2 * 3
    assert {*frame["cell"]} == {POLICY}
    assert {*zip(frame["problems"], frame["samples"], strict=True)} == {(6, 8), (30, 8)}
    for metric, column in (("pass_at_k", "correct"), ("max_at_k", "reward")):
        for k in (1, 2, 4):
            pooled = []
            for family in FAMILIES:
                rewards = pd.DataFrame(SCORES[family]).groupby("problem_id")[column]
                exact = [float(max_at_k_estimate(list(map(float, one)), k)) for _, one in rewards]
                point = frame.loc[family, metric, k]
                assert point["estimate"] == pytest.approx(np.mean(exact))
                total = max(np.std(exact, ddof=1) / sqrt(6), np.nan_to_num(point["error_within"]))
                assert point["error_total"] == pytest.approx(total)
                pooled += exact
            assert frame.loc["pooled", metric, k]["estimate"] == pytest.approx(np.mean(pooled))


def test_the_interval_resamples_problems() -> None:
    """Computed again by hand from the indices that every policy uses."""
    rewards = np.random.default_rng(0).random((ENOUGH_PROBLEMS, 8))
    estimates = [float(max_at_k_estimate(values, 2)) for values in rewards.tolist()]
    resampled = resampled_problems((ENOUGH_PROBLEMS,), 200, 7)
    means = sorted(
        sum(estimates[problem] for problem in row) / ENOUGH_PROBLEMS for row in resampled.tolist()
    )
    _, point = points(rewards > 0.5, rewards, 2, 200, 7)
    # 0.025 of the way from the first to the last of 200 is between the 5th and the 6th.
    low = means[4] + 0.975 * (means[5] - means[4])
    high = means[194] + 0.025 * (means[195] - means[194])
    assert (point["low"], point["high"]) == pytest.approx((low, high))
    assert point["low"] < point["estimate"] < point["high"]
    assert (resampled == resampled_problems((ENOUGH_PROBLEMS,), 200, 7)).all()


def test_blocks_of_samples_are_one_curve(experiment: Experiment, tmp_path: Path) -> None:
    """The same scores in two tables give the same numbers."""
    whole = curves_of(experiment)
    evaluation = tiny_world.OVERRIDES["evaluation"] | {"block": 4}
    cut = tiny_world.load(tmp_path, evaluation=evaluation)
    write_scores(cut, POLICY, "standard", SCORES)
    curves(cut, POLICY, "standard", force=True)
    pd.testing.assert_frame_equal(read_frame(cut.files.curves(POLICY, "standard"), CURVES), whole)
    cut.files.scores(POLICY, "standard", 1).unlink()
    command = re.escape(f"`{cut.command('score', POLICY, 'standard', '1')}`")
    with pytest.raises(InputError, match=rf"1\.parquet: no such file; {command}"):
        curves(cut, POLICY, "standard", force=True)
