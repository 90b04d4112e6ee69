"""Curves: estimates over problems with their errors, from scores and nothing else."""

import csv
import json
from collections import defaultdict
from fractions import Fraction
from math import comb, isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import CURVES, SCORES, read_table, write_table
from rspo.evaluation.curves import curve, curves, curves_of_scores
from rspo.evaluation.curves_table import curves_table, read_curves, write_curves_table
from rspo.evaluation.score import score_responses
from rspo.evaluation.scores import Scores
from rspo.evaluation.statistics import resampled_problems
from rspo.rewards import is_correct
from tests.support import tiny_world

Rows = list[dict[str, Any]]
POLICY = "small--base"
FAMILIES = ("linear", "multiply", "countdown", "divide", "sequence")


def score_row(problem: str, index: int, correct: bool, reward: float) -> dict[str, Any]:
    verdict = {"verifier": "exact", "verdict": "correct" if correct else "incorrect"}
    place = {"problem_id": problem, "sample_index": index}
    return place | {"correct": correct, "reward": reward} | verdict


def random_scores(seed: int, problems: int = 6, samples: int = 8) -> Rows:
    rng = np.random.default_rng(seed)
    rows = []
    for name in range(problems):
        right = rng.random(samples) < rng.random()
        rewards = np.where(right, 1 - 0.5 * rng.integers(1, 19, samples) / 18, 0.0)
        for index in range(samples):
            rows.append(score_row(f"p{name}", index, bool(right[index]), float(rewards[index])))
    return rows


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """A small experiment with random scores of the base policy on every benchmark."""
    found = tiny_world.load(tmp_path)
    for seed, family in enumerate(FAMILIES):
        write_table(found.scores(POLICY, family, 0), SCORES, random_scores(seed))
    return found


def by_point(rows: Rows) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["benchmark"], row["metric"], row["k"]): row for row in rows}


# --- statistics -----------------------------------------------------------------------------------


def subsets_mean(rewards: list[float], k: int) -> float:
    """Mean over the k-subsets of the best reward, counted rank by rank."""
    ascending = [Fraction(reward) for reward in sorted(rewards)]
    total = sum(comb(rank, k - 1) * reward for rank, reward in enumerate(ascending))
    return float(total / comb(len(rewards), k))


def test_a_row_for_each_benchmark_metric_and_k(experiment: Experiment) -> None:
    curves(experiment, POLICY, "standard")
    rows = read_curves(experiment, POLICY, "standard")
    points = by_point(rows)
    assert len(rows) == len(points) == 6 * 2 * 3
    assert {benchmark for benchmark, _, _ in points} == {*FAMILIES, "pooled"}
    assert {row["cell"] for row in rows} == {POLICY}
    for (benchmark, _, _), row in points.items():
        assert row["problems"] == (30 if benchmark == "pooled" else 6)
        assert row["samples"] == 8


def test_estimates_are_means_over_problems(experiment: Experiment) -> None:
    """Against each problem's own exact estimate; pooled problems count the same each."""
    curves(experiment, POLICY, "standard")
    points = by_point(read_curves(experiment, POLICY, "standard"))
    for metric, column in (("pass_at_k", "correct"), ("max_at_k", "reward")):
        for k in (1, 2, 4):
            pool = []
            for seed, family in enumerate(FAMILIES):
                rewards = defaultdict(list)
                for row in random_scores(seed):
                    rewards[row["problem_id"]].append(float(row[column]))
                estimates = [subsets_mean(values, k) for values in rewards.values()]
                found = points[family, metric, k]
                assert found["estimate"] == pytest.approx(np.mean(estimates))
                assert found["error_total"] == pytest.approx(np.std(estimates, ddof=1) / sqrt(6))
                pool += estimates
            assert points["pooled", metric, k]["estimate"] == pytest.approx(np.mean(pool))


def test_the_error_within_problems_is_what_new_samples_would_show() -> None:
    """Two problems solved with known probabilities, sampled again and again."""
    rng = np.random.default_rng(0)
    chances, samples, k, repeats = np.array([[0.1], [0.4]]), 16, 4, 1000
    estimates, squared_errors = [], []
    for _ in range(repeats):
        right = rng.random((2, samples)) < chances
        row = curve(Scores(right, right.astype(float)), [k], 1, 0)[0]
        estimates.append(row["estimate"])
        squared_errors.append(row["error_within"] ** 2)
    assert np.mean(estimates) == pytest.approx(np.mean(1 - (1 - chances) ** k), abs=0.012)
    assert np.mean(squared_errors) == pytest.approx(np.var(estimates), rel=0.15)


def test_the_interval_resamples_problems() -> None:
    """Computed again by hand from the indices that every policy shares."""
    rewards = np.random.default_rng(0).random((9, 8))
    estimates = [subsets_mean(values, 2) for values in rewards.tolist()]
    chosen = resampled_problems(9, 200, 7)
    means = sorted(sum(estimates[problem] for problem in row) / 9 for row in chosen.tolist())
    (_, row) = curve(Scores(rewards > 0.5, rewards), [2], 200, 7)
    # 0.025 of the way from the first to the last of 200 is between the 5th and the 6th.
    low = means[4] + 0.975 * (means[5] - means[4])
    high = means[194] + 0.025 * (means[195] - means[194])
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert row["low"] < row["estimate"] < row["high"]
    assert (chosen == resampled_problems(9, 200, 7)).all()


def test_samples_are_never_resampled_within_a_problem() -> None:
    """One correct sample of 64 means Pass@64 = 1, and problems that agree leave no interval."""
    right = np.zeros((4, 64), dtype=bool)
    right[:, 3] = True
    rows = curve(Scores(right, right.astype(float)), [64], 100, 0)
    for row in rows:
        assert (row["estimate"], row["low"], row["high"]) == (1.0, 1.0, 1.0)
        assert row["error_total"] == 0.0
        assert isnan(row["error_within"])  # 2k > N


def test_policies_are_resampled_alike(experiment: Experiment) -> None:
    """So the order in which a file lists its samples changes nothing, and nor does the policy."""
    other = "small--policy-gradient--k1--n16--s0"
    for seed, family in enumerate(FAMILIES):
        shuffled = random_scores(seed)
        np.random.default_rng(1).shuffle(shuffled)  # type: ignore[arg-type]
        write_table(experiment.scores(other, family, 0), SCORES, shuffled)
    for policy in (POLICY, other):
        curves(experiment, policy, "standard")
    mine, others = (read_curves(experiment, policy, "standard") for policy in (POLICY, other))
    assert str([row | {"cell": ""} for row in mine]) == str([r | {"cell": ""} for r in others])


def test_blocks_of_samples_are_one_curve(experiment: Experiment, tmp_path: Path) -> None:
    """Cut in two tables, the same scores give the same numbers."""
    curves(experiment, POLICY, "standard")
    whole = read_curves(experiment, POLICY, "standard")
    evaluation = tiny_world.OVERRIDES["evaluation"] | {"block": 4}
    cut = tiny_world.load(tmp_path, evaluation=evaluation)
    for seed, family in enumerate(FAMILIES):
        for block in (0, 1):
            rows = [row for row in random_scores(seed) if row["sample_index"] // 4 == block]
            write_table(cut.scores(POLICY, family, block), SCORES, rows)
    curves(cut, POLICY, "standard")
    assert str(read_curves(cut, POLICY, "standard")) == str(whole)
    cut.scores(POLICY, "divide", 1).unlink()
    with pytest.raises(InputError, match=r"divide/1\.parquet: no such file"):
        curves(cut, POLICY, "standard")


def test_one_problem_has_no_error_over_problems() -> None:
    (row, _) = curve(Scores(np.eye(1, 4, dtype=bool), np.eye(1, 4)), [2], 10, 0)
    assert isnan(row["error_total"])
    assert row["low"] == row["high"] == row["estimate"] == 0.5


def test_rewards_of_any_size_stay_finite() -> None:
    rewards = np.full((2, 1024), 1e-3)
    rewards[0, 0] = 1e6
    for row in curve(Scores(rewards > 1, rewards), [1, 256, 512, 1024], 10, 0):
        assert np.isfinite([row["estimate"], row["low"], row["high"]]).all()


# --- what is refused ------------------------------------------------------------------------------


def refused(experiment: Experiment, rows: Rows, message: str) -> None:
    write_table(experiment.scores(POLICY, "divide", 0), SCORES, rows)
    with pytest.raises(InputError, match=message):
        curves(experiment, POLICY, "standard")
    assert not experiment.curves(POLICY, "standard").exists()


def test_unequal_numbers_of_samples(experiment: Experiment) -> None:
    message = r"divide/0\.parquet: unequal numbers of samples: 7 of problem 'p5', 8 of problem 'p0'"
    refused(experiment, random_scores(0)[:-1], message)


def test_unequal_numbers_of_samples_between_benchmarks(experiment: Experiment) -> None:
    message = r"unequal numbers of samples per problem \(8 in linear, .*16 in divide"
    refused(experiment, random_scores(0, samples=16), message)


def test_too_few_samples(experiment: Experiment) -> None:
    rows = random_scores(0)
    for family in FAMILIES:
        write_table(
            experiment.scores(POLICY, family, 0), SCORES, [r for r in rows if r["sample_index"] < 3]
        )
    with pytest.raises(InputError, match="k = 4 with n = 3 samples; allowed: 1 <= k <= n"):
        curves(experiment, POLICY, "standard")


def test_a_sample_that_stands_there_twice(experiment: Experiment) -> None:
    rows = random_scores(0)
    refused(experiment, [*rows, rows[0]], r"row 48: sample 0 of problem 'p0' stands there twice")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rewards_that_are_not_finite(experiment: Experiment, bad: float) -> None:
    rows = random_scores(0)
    rows[5]["reward"] = bad
    refused(experiment, rows, r"divide/0\.parquet, row 5: reward is (nan|inf); must be finite")


def test_an_empty_verdict(experiment: Experiment) -> None:
    rows = random_scores(0)
    rows[5]["correct"] = None
    refused(experiment, rows, r"divide/0\.parquet, row 5: column 'correct' is empty")


def test_no_rows(experiment: Experiment) -> None:
    refused(experiment, [], r"divide/0\.parquet: has no rows")


def test_a_truncated_file_and_a_missing_one(experiment: Experiment) -> None:
    path = experiment.scores(POLICY, "divide", 0)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"divide/0\.parquet: not a whole parquet file"):
        curves(experiment, POLICY, "standard")
    path.unlink()
    with pytest.raises(InputError, match=r"divide/0\.parquet: no such file"):
        curves(experiment, POLICY, "standard")


# --- bare scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_bare_scores_in_either_format_give_the_same_curve(tmp_path: Path, suffix: str) -> None:
    rows = random_scores(3)
    source = tmp_path / "mine.parquet"
    write_table(source, SCORES, rows)
    if suffix == ".csv":
        source = tmp_path / "mine.csv"
        with source.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [*SCORES.schema.names, "note"])
            writer.writeheader()
            writer.writerows(row | {"note": "more columns do no harm"} for row in rows)
    output = tmp_path / "curve.parquet"
    curves_of_scores(source, output)
    found = by_point(read_table(output, CURVES))
    assert {k for _, _, k in found} == {1, 2, 4}  # powers of two up to half of 8
    assert {row["cell"] for row in found.values()} == {"mine"}
    rewards = np.array([row["reward"] for row in rows]).reshape(6, 8)
    for k in (1, 2, 4):
        best = np.mean([subsets_mean(values, k) for values in rewards.tolist()])
        assert found["mine", "max_at_k", k]["estimate"] == pytest.approx(best)


def test_a_csv_curve_has_the_same_numbers(tmp_path: Path) -> None:
    source = tmp_path / "mine.parquet"
    write_table(source, SCORES, random_scores(3))
    curves_of_scores(source, tmp_path / "curve.parquet", [3, 8])
    curves_of_scores(source, tmp_path / "curve.csv", [3, 8])
    expected = read_table(tmp_path / "curve.parquet", CURVES)
    with (tmp_path / "curve.csv").open() as stream:
        found = list(csv.DictReader(stream))
    assert [list(row) for row in found] == [CURVES.schema.names] * 4
    for row, exact in zip(found, expected, strict=True):
        assert (row["metric"], int(row["k"])) == (exact["metric"], exact["k"])
        for column in ("estimate", "error_within", "low", "high"):
            assert float(row[column]) == pytest.approx(exact[column], rel=1e-15, nan_ok=True)


def test_bad_bare_scores_are_refused(tmp_path: Path) -> None:
    source, output = tmp_path / "mine.csv", tmp_path / "curve.csv"
    with pytest.raises(InputError, match=r"mine\.csv: no such file"):
        curves_of_scores(source, output)
    for text, message in (
        ("", r"mine\.csv: not a table of scores"),
        ("problem_id,sample_index\np,0\n", r"mine\.csv: not a table of scores.*correct"),
        (",".join(SCORES.schema.names) + "\n", r"mine\.csv: has no rows"),
        (
            ",".join(SCORES.schema.names) + "\np,0,maybe,x,y,1\n",
            r"mine\.csv: not a table of scores",
        ),
        (",".join(SCORES.schema.names) + "\np,0,true,x,y,nan\n", r"mine\.csv, row 0: .*reward"),
    ):
        source.write_text(text)
        with pytest.raises(InputError, match=message):
            curves_of_scores(source, output)
    with pytest.raises(InputError, match=r"curve\.xlsx: is \.xlsx; allowed: \.parquet, \.csv"):
        curves_of_scores(source, tmp_path / "curve.xlsx")
    write_table(tmp_path / "mine.parquet", SCORES, random_scores(3))
    with pytest.raises(InputError, match=r"mine\.parquet: k = 9 with n = 8 samples"):
        curves_of_scores(tmp_path / "mine.parquet", output, [9])
    assert not output.exists()


def test_real_responses_from_file_to_curve(tmp_path: Path, shared: Path) -> None:
    """400 labelled responses, 8 to a problem: the curve is that of their verdicts, exactly."""
    source = shared / "verification" / "qwen_math_cot_100.jsonl"
    scores, output = tmp_path / "scores.parquet", tmp_path / "curve.csv"
    score_responses(source, scores, "rules", "question", "gold", "output")
    curves_of_scores(scores, output)
    with output.open() as stream:
        found = {
            int(row["k"]): row for row in csv.DictReader(stream) if row["metric"] == "pass_at_k"
        }
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    verdicts = is_correct([row["output"] for row in rows], [row["gold"] for row in rows])
    right: dict[str, int] = defaultdict(int)
    for row, verdict in zip(rows, verdicts, strict=True):
        right[row["question"]] += verdict
    assert len(right) == 50
    assert sorted(found) == [1, 2, 4]
    for k, row in found.items():
        passed = [1 - Fraction(comb(8 - c, k), comb(8, k)) for c in right.values()]
        assert float(row["estimate"]) == pytest.approx(float(sum(passed) / 50), rel=1e-12)
        assert (row["problems"], row["samples"]) == ("50", "8")


# --- the table of all policies --------------------------------------------------------------------


def test_one_table_of_every_curve(experiment: Experiment) -> None:
    suites = {
        (policy, comparison.suite)
        for grid, comparison in experiment.config.grid.items()
        for policy in experiment.policies_of(grid)
    }
    for policy, suite in suites:
        for seed, benchmark in enumerate(experiment.benchmarks_of(suite)):
            write_table(experiment.scores(policy, benchmark, 0), SCORES, random_scores(seed))
        curves(experiment, policy, suite)
    write_curves_table(experiment)
    with curves_table(experiment).open() as stream:
        rows = list(csv.DictReader(stream))
    # Both metrics at three k, of every benchmark and of all together.
    assert len(rows) == sum(6 * (len(experiment.benchmarks_of(suite)) + 1) for _, suite in suites)
    described = {
        tuple(
            row[column]
            for column in ("suite", "model", "objective", "training_k", "n", "reward", "seed")
        )
        for row in rows
        if row["cell"] in (POLICY, "small--rspo-max--k4--n16--length--s0")
    }
    assert described == {
        ("standard", "small", "base", "", "", "", ""),
        ("contamination_free", "small", "base", "", "", "", ""),
        ("standard", "small", "rspo_max_at_k", "4", "16", "length", "0"),
    }
    one = read_curves(experiment, POLICY, "standard")[7]
    (same,) = [
        row
        for row in rows
        if (row["cell"], row["benchmark"], row["metric"], row["k"])
        == (POLICY, one["benchmark"], one["metric"], str(one["k"]))
    ]
    assert float(same["estimate"]) == one["estimate"]


def test_a_missing_curve_is_named_and_no_table_written(experiment: Experiment) -> None:
    with pytest.raises(InputError, match=r"curves/standard\.parquet: no such file"):
        write_curves_table(experiment)
    assert not curves_table(experiment).exists()
