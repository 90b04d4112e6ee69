"""The numbers in figures of results, against other computations from the same inputs."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.core.files import read_json_lines
from rspo.core.tables import CURVES, read_table, write_csv
from rspo.figures import FIGURES, sample_efficiency, style
from rspo.figures.methods import methods_of
from tests.figures.conftest import Drawn
from tests.support.planted import experiment_in, write_problems

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("scale", "name", "metric", "unit"),
    [
        ("tiny", "fig_main", "pass_at_k", 100),
        ("tiny", "fig_max_at_k", "max_at_k", 1),
        ("paper", "fig_contamination_free", "pass_at_k", 100),
    ],
)
def test_curves_are_means_over_seeds(
    experiments: dict[str, Experiment], scale: str, name: str, metric: str, unit: float
) -> None:
    experiment, figure = experiments[scale], FIGURES[name]
    inputs = {
        policy: {
            (row["benchmark"], row["k"]): row
            for row in read_table(experiment.files.curves(policy, figure.suite(experiment)), CURVES)
            if row["metric"] == metric
        }
        for policy in figure.policies(experiment)
    }
    table = figure.table(experiment, figure)
    rows = {(row["method"], row["benchmark"], row["k"]): row for _, row in table.iterrows()}
    for method in methods_of(experiment, figure.policies(experiment)):
        assert len(method.policies) == (1 if method.label == "Base" else experiment.config.seeds)
        for point in list(inputs[method.policies[0]]):
            row = rows.pop((method.label, *point))
            seeds = [inputs[policy].pop(point) for policy in method.policies]
            for key in ("estimate", "low", "high"):
                assert row[key] == pytest.approx(unit * fmean(seed[key] for seed in seeds))
            estimates = [unit * seed["estimate"] for seed in seeds]
            assert [row["lowest"], row["highest"]] == [min(estimates), max(estimates)]
            assert row["seeds"] == len(seeds)
            assert row["samples"] == experiment.config.evaluation.samples
    assert not rows
    assert not any(inputs.values())
    assert table["benchmark"].iloc[-1] == "pooled"


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_differences_are_paired_over_problems(
    experiments: dict[str, Experiment], scale: str
) -> None:
    """At k = 1, where Pass@k is the fraction of correct samples, by a paired t interval."""
    experiment, figure = experiments[scale], FIGURES["fig_contamination_free"]
    table = figure.table(experiment, figure)
    benchmark, *_ = experiment.benchmarks_of("contamination_free")
    rows = table[(table["benchmark"] == benchmark) & (table["k"] == 1)].set_index("method")
    solved = {}
    for method in methods_of(experiment, figure.policies(experiment)):
        files = [experiment.score_files(p, "contamination_free") for p in method.policies]
        frame = pd.concat(pd.read_parquet(path) for paths in files for path in paths)
        frame = frame[frame["benchmark"] == benchmark]
        solved[method.label] = 100 * frame.groupby("problem_id")["correct"].mean()
    for name, row in rows.iterrows():
        difference = solved[str(name)] - solved["PG"]
        assert row["reference"] == "PG"
        assert row["difference"] == pytest.approx(difference.mean(), abs=1e-9)
        half = (row["difference_high"] - row["difference_low"]) / 2
        if name == "PG":  # the reference itself
            assert (row["difference_low"], row["difference_high"]) == (0.0, 0.0)
        elif scale == "tiny":
            error = difference.sem()
            assert half == pytest.approx(error * student.ppf(0.975, len(difference) - 1))


def test_without_policy_gradient_differences_are_to_the_base_model(drawn: Drawn) -> None:
    table, _ = drawn("tiny", "fig_scalability")
    assert set(table["reference"]) == {"Base"}


def logs_of(experiment: Experiment, method: Any, key: str) -> np.ndarray:
    """(seeds, steps) of one number."""
    logs = [read_json_lines(experiment.files.training_log(cell)) for cell in method.policies]
    return np.array([[row[key] for row in log] for log in logs])


@pytest.mark.parametrize(("scale", "window"), [("tiny", 7), ("paper", 29)])
def test_entropy_is_smoothed_and_averaged_over_seeds(
    experiments: dict[str, Experiment], scale: str, window: int
) -> None:
    experiment, figure = experiments[scale], FIGURES["fig_entropy"]
    table, kernel = figure.table(experiment, figure), np.ones(window)
    assert {*table["window"]} == {window}
    for method in methods_of(experiment, figure.policies(experiment)):
        raw = logs_of(experiment, method, "entropy")
        counts = np.convolve(np.ones(raw.shape[1]), kernel, "same")
        smooth = np.array([np.convolve(seed, kernel, "same") / counts for seed in raw])
        rows = table[table["method"] == method.label]
        assert [*rows["step"]] == [*range(1, raw.shape[1] + 1)]
        expected = {"entropy": raw.mean(0), "smoothed": smooth.mean(0)}
        expected |= {"lowest": smooth.min(0), "highest": smooth.max(0)}
        for column, values in expected.items():
            assert rows[column].to_numpy() == pytest.approx(values)
        assert {*rows["seeds"]} == {len(raw)}


def test_sample_efficiency_has_the_first_pass_and_complete_windows(
    experiments: dict[str, Experiment],
) -> None:
    """The first 40 steps have new prompts: means of 9 steps at the steps 5 to 36."""
    experiment, figure = experiments["tiny"], FIGURES["fig_sample_efficiency"]
    table = figure.table(experiment, figure)
    assert {*table["window"]} == {9}
    assert {*table["metric_k"]} == {4}
    for method in methods_of(experiment, figure.policies(experiment)):
        raw = 100 * logs_of(experiment, method, "pass_at_4")[0, :40]
        rows = table[table["method"] == method.label]
        assert [*rows["step"]] == [*range(5, 37)]
        assert [*rows["responses"]] == [step * 40 * method.n for step in range(5, 37)]
        assert rows["estimate"].to_numpy() == pytest.approx(raw[4:36])
        means = np.convolve(raw, np.ones(9) / 9, "valid")
        assert rows["smoothed"].to_numpy() == pytest.approx(means)


def test_the_error_of_a_smoothed_line_ignores_its_trend() -> None:
    """Independent noise around a line: the standard deviation of a mean of 20 values."""
    noise = np.random.default_rng(0).normal(0, 3, 5000)
    error = sample_efficiency.error_of_mean([*(noise + 0.01 * np.arange(5000))], 20)
    assert error == pytest.approx(3 / 20**0.5, rel=0.03)


@pytest.mark.parametrize(("prompts", "steps"), [(400, 100), (7, 1), (601, 150), (9999, 150)])
def test_first_pass_counts_complete_steps(tmp_path: Any, prompts: int, steps: int) -> None:
    experiment = experiment_in(tmp_path, training={"prompts_per_step": 4, "mini_batch_prompts": 2})
    write_problems(experiment, prompts)
    assert sample_efficiency.first_pass(experiment) == steps


def test_differences_are_the_claims_comparisons_at_the_trained_k(
    experiments: dict[str, Experiment],
) -> None:
    """In percentage points; the p-values are adjusted by Holm over all nine."""
    experiment, figure = experiments["tiny"], FIGURES["fig_difference"]
    table = figure.table(experiment, figure)
    (path,) = figure.task(experiment).input_files
    rows = pd.read_csv(path, dtype={"k": str})
    rows = rows[rows["claim"].isin(["C1", "C3", "A3"]) & (rows["where"] == "pooled")]
    labels = {"baseline": "Baseline k={k}", "policy gradient": "PG", "GRPO": "GRPO"}
    expected = [(against, k) for against in labels for k in (2, 4, 8)]
    assert [*zip(table["against"], table["k"], strict=True)] == expected
    for point in table.to_dict("records"):
        k = point["k"]
        pair = rows["method_a"] == f"RSPO k={k}"
        pair &= rows["method_b"] == labels[point["against"]].format(k=k)
        row, *_ = rows[pair & (rows["k"] == str(k))].to_dict("records")
        for column in ("estimate", "low", "high", "error"):
            assert point[column] == pytest.approx(100 * row[column])
        assert point["p"] == row["p"]
        assert point["p_tie"] == row["p_tie"]
        assert point["tie_margin"] == 2.0
    for kind in ("p", "p_tie"):
        ordered = sorted(table[kind])  # (m - i) p of the ordered ones never falls
        for p, found in zip(table[kind], table[f"{kind}_adjusted"], strict=True):
            steps = [(len(table) - i) * one for i, one in enumerate(ordered) if one <= p]
            assert found == pytest.approx(min(1.0, max(steps)))


def test_without_such_comparisons_the_figure_of_differences_is_empty(
    experiments: dict[str, Experiment], tmp_path: Path
) -> None:
    """Comparisons of other cells, problems or k are not of the figure."""
    source = experiments["tiny"]
    experiment = replace(source, files=Files(source.files.results, tmp_path))
    figure = FIGURES["fig_difference"]
    (path,) = figure.task(source).input_files
    rows = pd.read_csv(path)
    (target,) = figure.task(experiment).input_files
    for change in (
        {"claim": "C7"},
        {"where": "linear"},
        {"metric": "max_at_k"},
        {"k": 16},
        {"cells": "small--base"},
    ):
        write_csv(target, rows.assign(**change))
        table = figure.table(experiment, figure)
        assert table.empty
        with style.applied():
            figure.draw(table, experiment, figure).draw_without_rendering()
