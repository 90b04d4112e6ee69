"""Curves: estimates over problems with their errors, from scores only."""

from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import CURVES, read_csv, read_frame
from rspo.evaluation.curves import curve, curves, write_curves_table
from rspo.evaluation.score_arrays import ScoreArrays
from rspo.evaluation.statistics import resampled_problems
from tests.support import tiny_world
from tests.support.exact import max_at_k_estimate
from tests.support.steps import attest
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
    return read_frame(experiment.curves(policy, "standard"), CURVES)


def points(correct: Any, rewards: Any, k: int, resamples: int = 10, seed: int = 0) -> list[Row]:
    """The points of Pass@k and of Max@k."""
    return curve(ScoreArrays(correct, rewards), [k], resamples, seed).to_dict("records")


def test_a_row_for_each_benchmark_metric_and_k(experiment: Experiment) -> None:
    frame = curves_of(experiment)
    assert len(frame) == len(frame[["benchmark", "metric", "k"]].drop_duplicates()) == 6 * 2 * 3
    assert set(frame["benchmark"]) == {*FAMILIES, "pooled"}
    assert set(frame["cell"]) == {POLICY}
    assert set(frame["samples"]) == {8}
    assert (frame["problems"] == np.where(frame["benchmark"] == "pooled", 30, 6)).all()


def test_estimates_are_means_over_problems(experiment: Experiment) -> None:
    """Compared with each problem's exact estimate; pooled problems have equal weight."""
    frame = curves_of(experiment).set_index(["benchmark", "metric", "k"])
    for metric, column in (("pass_at_k", "correct"), ("max_at_k", "reward")):
        for k in (1, 2, 4):
            pooled = []
            for family in FAMILIES:
                rewards = pd.DataFrame(SCORES[family]).groupby("problem_id")[column]
                exact = [float(max_at_k_estimate(list(map(float, one)), k)) for _, one in rewards]
                point = frame.loc[family, metric, k]
                assert point["estimate"] == pytest.approx(np.mean(exact))
                assert point["error_total"] == pytest.approx(np.std(exact, ddof=1) / sqrt(6))
                pooled += exact
            assert frame.loc["pooled", metric, k]["estimate"] == pytest.approx(np.mean(pooled))


def test_the_error_within_problems_is_the_spread_over_new_samples() -> None:
    """Two problems with known probabilities, sampled a thousand times."""
    rng = np.random.default_rng(0)
    chances, samples, k, repeats = np.array([[0.1], [0.4]]), 16, 4, 1000
    estimates, squared_errors = [], []
    for _ in range(repeats):
        right = rng.random((2, samples)) < chances
        point, _ = points(right, right.astype(float), k, resamples=1)
        estimates.append(point["estimate"])
        squared_errors.append(point["error_within"] ** 2)
    assert np.mean(estimates) == pytest.approx(np.mean(1 - (1 - chances) ** k), abs=0.012)
    assert np.mean(squared_errors) == pytest.approx(np.var(estimates), rel=0.15)


def test_the_interval_resamples_problems() -> None:
    """Computed again by hand from the indices that every policy uses."""
    rewards = np.random.default_rng(0).random((9, 8))
    estimates = [float(max_at_k_estimate(values, 2)) for values in rewards.tolist()]
    resampled = resampled_problems(9, 200, 7)
    means = sorted(sum(estimates[problem] for problem in row) / 9 for row in resampled.tolist())
    _, point = points(rewards > 0.5, rewards, 2, 200, 7)
    # 0.025 of the way from the first to the last of 200 is between the 5th and the 6th.
    low = means[4] + 0.975 * (means[5] - means[4])
    high = means[194] + 0.025 * (means[195] - means[194])
    assert (point["low"], point["high"]) == pytest.approx((low, high))
    assert point["low"] < point["estimate"] < point["high"]
    assert (resampled == resampled_problems(9, 200, 7)).all()


def test_samples_are_never_resampled_within_a_problem() -> None:
    """One correct sample of 64 gives Pass@64 = 1; equal problems give an empty interval."""
    right = np.zeros((4, 64), dtype=bool)
    right[:, 3] = True
    for point in points(right, right.astype(float), 64):
        assert (point["estimate"], point["low"], point["high"]) == (1.0, 1.0, 1.0)
        assert point["error_total"] == 0.0
        assert isnan(point["error_within"])  # 2k > N


def test_policies_are_resampled_alike_whatever_the_order_of_their_rows(
    experiment: Experiment,
) -> None:
    other = "small--policy-gradient--k1--n16--s0"
    order = np.random.default_rng(1).permutation(48)
    shuffled = {family: [SCORES[family][row] for row in order] for family in reversed(FAMILIES)}
    write_scores(experiment, other, "standard", shuffled)
    expected = curves_of(experiment).assign(cell=other)
    pd.testing.assert_frame_equal(curves_of(experiment, other), expected, check_exact=True)


def test_blocks_of_samples_are_one_curve(experiment: Experiment, tmp_path: Path) -> None:
    """The same scores in two tables give the same numbers."""
    whole = curves_of(experiment)
    evaluation = tiny_world.OVERRIDES["evaluation"] | {"block": 4}
    cut = tiny_world.load(tmp_path, evaluation=evaluation)
    write_scores(cut, POLICY, "standard", SCORES)
    curves(cut, POLICY, "standard", force=True)
    pd.testing.assert_frame_equal(read_frame(cut.curves(POLICY, "standard"), CURVES), whole)
    write_scores(experiment, POLICY, "standard", SCORES)  # both blocks in the first file
    message = r"standard/1\.parquet, linear, row 0: sample 4 .* is duplicated"
    with pytest.raises(InputError, match=message):
        curves(cut, POLICY, "standard", force=True)
    cut.scores(POLICY, "standard", 1).unlink()
    with pytest.raises(InputError, match=r"1\.parquet: no such file; `rspo score .* standard 1`"):
        curves(cut, POLICY, "standard")


def test_one_problem_has_no_error_over_problems() -> None:
    point, _ = points(np.eye(1, 4, dtype=bool), np.eye(1, 4), 2)
    assert isnan(point["error_total"])
    assert point["low"] == point["high"] == point["estimate"] == 0.5


def test_rewards_of_any_size_stay_finite() -> None:
    rewards = np.full((2, 1024), 1e-3)
    rewards[0, 0] = 1e6
    frame = curve(ScoreArrays(rewards > 1, rewards), [1, 256, 512, 1024], 10, 0)
    assert np.isfinite(frame[["estimate", "low", "high"]]).all(axis=None)


def changed(row: int, **values: Any) -> list[Row]:
    rows = random_scores(0)
    rows[row] |= values
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            random_scores(0)[:-1],
            r"standard/0\.parquet, divide: unequal numbers of samples: 7 of problem 'p5', 8 of",
        ),
        (
            random_scores(0, samples=16),
            r"unequal numbers of samples per problem \(8 in linear, .*16 in divide",
        ),
        ([*random_scores(0), random_scores(0)[0]], r"row 48: sample 0 of problem 'p0' is dupl"),
        (changed(5, reward=float("nan")), r"0\.parquet, divide, row 5: reward is nan; must be fin"),
        (changed(5, reward=float("inf")), r"0\.parquet, divide, row 5: reward is inf; must be fin"),
        (changed(5, correct=None), r"0\.parquet, divide, row 5: column 'correct' is empty"),
        ([], r"standard/0\.parquet: has no rows of benchmark divide"),
    ],
)
def test_bad_scores_are_refused(experiment: Experiment, rows: list[Row], message: str) -> None:
    write_scores(experiment, POLICY, "standard", SCORES | {"divide": rows})
    with pytest.raises(InputError, match=message):
        curves(experiment, POLICY, "standard")
    assert not experiment.curves(POLICY, "standard").exists()


def test_too_few_samples_are_refused(experiment: Experiment) -> None:
    rows = [row for row in random_scores(0) if row["sample_index"] < 3]
    write_scores(experiment, POLICY, "standard", dict.fromkeys(FAMILIES, rows))
    with pytest.raises(InputError, match="k = 4 with n = 3 samples; allowed: 1 <= k <= n"):
        curves(experiment, POLICY, "standard")


def test_a_truncated_file_is_named(experiment: Experiment) -> None:
    path = experiment.scores(POLICY, "standard", 0)
    path.write_bytes(path.read_bytes()[:200])
    attest(steps.curves(experiment, POLICY, "standard").inputs())
    with pytest.raises(InputError, match=r"standard/0\.parquet: not a complete Parquet file"):
        curves(experiment, POLICY, "standard")


def test_one_table_has_every_curve_with_the_policys_settings(experiment: Experiment) -> None:
    for policy, suite in experiment.evaluations:
        benchmarks = experiment.benchmarks_of(suite)
        write_scores(experiment, policy, suite, dict.fromkeys(benchmarks, random_scores(0)))
        curves(experiment, policy, suite)
    write_curves_table(experiment)
    frame = read_csv(experiment.table("curves"))
    # Both metrics at three k, for every benchmark and pooled.
    suites = [suite for _, suite in experiment.evaluations]
    assert len(frame) == sum(6 * (len(experiment.benchmarks_of(suite)) + 1) for suite in suites)
    columns = ["suite", "model", "objective", "training_k", "n", "reward", "seed"]
    chosen = frame[frame["cell"].isin([POLICY, "small--rspo-max--k4--n16--length--s0"])]
    assert set(chosen[columns].itertuples(index=False, name=None)) == {
        ("standard", "small", "base", "", "", "", ""),
        ("contamination_free", "small", "base", "", "", "", ""),
        ("standard", "small", "rspo_max_at_k", "4", "16", "length", "0"),
    }
    own = frame[(frame["cell"] == POLICY) & (frame["suite"] == "standard")]
    estimates = read_frame(experiment.curves(POLICY, "standard"), CURVES)["estimate"]
    assert list(own["estimate"].astype(float)) == list(estimates)


def test_a_missing_curve_is_named_and_no_table_written(experiment: Experiment) -> None:
    with pytest.raises(InputError, match=r"curves/standard\.parquet: no such file"):
        write_curves_table(experiment)
    assert not experiment.table("curves").exists()
