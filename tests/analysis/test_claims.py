"""Verdicts on planted data: as claimed, the opposite, no effect, and missing inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rspo.analysis.claims import CLAIMS, step
from rspo.analysis.comparisons import Comparison
from rspo.analysis.measure import Measurement, growth_with_fraction
from rspo.analysis.results import results_of
from rspo.analysis.write import write_claims
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines
from rspo.core.tables import SCORES, read_csv, read_frame, write_frame
from rspo.estimators import max_at_k, pass_at_k, pass_at_k_covariance, pass_at_k_variance
from rspo.evaluation.read_outcomes import policy_scores
from rspo.evaluation.statistics import Estimate
from tests.support import planted
from tests.support.steps import attest

Rows = list[dict[str, str]]
UNRESOLVED = "not resolved at this size"


def read(experiment: Experiment, name: str = "claims") -> Rows:
    return read_csv(experiment.reports / f"{name}.csv").to_dict("records")


def verdicts(experiment: Experiment) -> dict[str, str]:
    write_claims(experiment)
    return {row["claim"]: row["verdict"] for row in read(experiment)}


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Two seeds of every cell, all as the paper claims, and the tested claims."""
    experiment = planted.plant_all(tmp_path_factory.mktemp("claimed"), planted.as_claimed)
    write_claims(experiment)
    return experiment


def comparisons(experiment: Experiment, **wanted: str) -> Rows:
    rows = read(experiment, "claim_comparisons")
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_what_was_planted_is_supported(as_claimed: Experiment) -> None:
    found = {row["claim"]: row["verdict"] for row in read(as_claimed)}
    # RSPO k=8 is planted to equal k=4 at Pass@4, so k=4 is not best against every other k.
    assert found == dict.fromkeys(CLAIMS, "supported") | {"C3b": UNRESOLVED}


def test_a_k_that_beats_every_other_k_at_itself_is_best(tmp_path: Path) -> None:
    cells = [("policy_gradient", 1, 16), ("rspo_pass_at_k", 8, 16)]
    experiment = planted.plant_all(tmp_path, planted.as_claimed, grid_of={"main": cells})
    assert verdicts(experiment)["C3b"] == "supported"


def test_the_opposite_is_contradicted(tmp_path: Path) -> None:
    experiment = planted.load(tmp_path)
    planted.plant_scores(experiment, planted.the_opposite, base=(1.0, 0.95))
    planted.plant_logs(experiment, rise=-0.05, seconds_of_all=-0.2)
    assert verdicts(experiment) == dict.fromkeys(CLAIMS, "contradicted")


def test_no_effect_is_not_resolved_and_supports_only_the_equivalence(tmp_path: Path) -> None:
    experiment = planted.load(tmp_path)
    planted.plant_scores(experiment, planted.all_alike, base=(0.6, 0.4))
    planted.plant_logs(experiment, rise=0.0, seconds_of_all=0.0)
    expected = dict.fromkeys(CLAIMS, UNRESOLVED) | {"C9": "supported"}
    assert verdicts(experiment) == expected


def test_one_opposite_benchmark_contradicts_a_claim_about_all(tmp_path: Path) -> None:
    experiment = planted.plant_all(tmp_path, planted.as_claimed, grid_only="main")
    for number, cell in enumerate(experiment.cells.values()):
        if cell.objective == "hitchhiking":
            skills = {"linear": planted.as_claimed(cell), "multiply": (1.0, 0.95)}
            planted.plant(experiment, cell.name, "standard", skills, number)
    found = verdicts(experiment)
    assert found["C1"] == "contradicted"
    (against,) = comparisons(experiment, claim="C1", decides="yes", where="multiply")
    assert against["outcome"] == "against"
    (other,) = comparisons(experiment, claim="C1", decides="yes", where="linear")
    assert other["outcome"] == "for"


# Entries of a grid, and why claims cannot be tested on it.
NO_BASELINE = {"main": [("policy_gradient", 1, 16), ("rspo_pass_at_k", 2, 16)]}
ODD_K = {
    "main": [("rspo_pass_at_k", 4, 16), ("hitchhiking", 2, 16)],
    "scalability": [("rspo_pass_at_k", 4, 16)],
}
LOST = [
    ({"mine": [("grpo", 1, 16)]}, "C1 C2 C3 C4 C10", "the grid has no main"),
    (NO_BASELINE, "C1 C2", "grid.main has no hitchhiking"),
    (NO_BASELINE, "C5", "the grid has no scalability"),
    (NO_BASELINE, "C9", "the grid has no grpo"),
    (ODD_K, "C1", "grid.main has no k with both rspo_pass_at_k and hitchhiking"),
    (ODD_K, "C2", "grid.main has hitchhiking with one k"),
    (ODD_K, "C3 C3b C4", "grid.main has no policy_gradient"),
    (ODD_K, "C5", "grid.scalability has no two n up to the 16 of grid.main"),
]


@pytest.mark.parametrize("grid", [{"mine": [("grpo", 1, 16)]}, NO_BASELINE, ODD_K])
def test_a_claim_that_the_grid_lacks_is_not_tested(tmp_path: Path, grid: dict[str, Any]) -> None:
    found = verdicts(planted.plant_all(tmp_path, planted.all_alike, grid_of=grid))
    assert set(found) == set(CLAIMS)
    for claims, reason in ((claims, reason) for other, claims, reason in LOST if other == grid):
        assert {found[claim] for claim in claims.split()} == {f"not tested: {reason}"}


def test_a_comparison_is_the_paired_test_of_its_two_policies(tmp_path: Path) -> None:
    """One seed, one benchmark, one k: Student's paired test on the problems' estimates."""
    experiment = planted.plant_all(tmp_path, planted.as_claimed, seeds=1, grid_only="main")
    write_claims(experiment)
    label = {"method_a": "RSPO k=4", "method_b": "Baseline k=4", "k": "2", "where": "linear"}
    (row,) = comparisons(experiment, claim="C1", **label)
    rspo, baseline = row["cells"].split()
    right = [policy_scores(experiment, policy, "linear").correct for policy in (rspo, baseline)]
    first, second = (pass_at_k(16, one.sum(axis=1), 2) for one in right)
    other = stats.ttest_rel(first, second)
    assert float(row["estimate"]) == pytest.approx(np.mean(first - second))
    assert float(row["p"]) == pytest.approx(other.pvalue)
    interval = float(row["low"]), float(row["high"])
    assert interval == pytest.approx(tuple(other.confidence_interval(0.95)))
    assert (row["seeds"], row["problems"], row["samples"]) == ("1", "160", "16")
    assert row["error_seeds"] == ""
    alone = sum(pass_at_k_variance(16, one.sum(axis=1), 2) for one in right)
    within = (alone - 2 * pass_at_k_covariance(*right, 2)).sum() ** 0.5 / 160
    assert float(row["error_within"]) == pytest.approx(within)
    claims = {found["claim"]: found for found in read(experiment)}
    said = "one training seed: the interval does not cover training variance"
    assert said in claims["C1"]["note"]
    # Entropies of two runs have no error that would tell whether the next two differ alike.
    assert claims["C4"]["verdict"] == UNRESOLVED
    assert (claims["C4"]["low"], claims["C4"]["p_adjusted"]) == ("", "1.0")


def test_max_at_k_is_of_the_rewards(as_claimed: Experiment) -> None:
    row, *_ = comparisons(as_claimed, claim="C8", metric="max_at_k", where="linear", k="2")
    first, second = (
        np.mean([max_at_k(policy_scores(as_claimed, one, "linear").rewards, 2) for one in policies])
        for policies in np.array(row["cells"].split()).reshape(2, 2)
    )
    assert float(row["estimate"]) == pytest.approx(first - second)


def test_equivalence_is_a_test_at_each_end_of_the_margin(tmp_path: Path) -> None:
    cells = {"main": [("policy_gradient", 1, 16), ("rspo_pass_at_k", 2, 16)]}
    experiment = planted.load(
        tmp_path, seeds=1, grid_of=cells | {"grpo": [("grpo", 1, 16), ("policy_gradient", 1, 16)]}
    )
    planted.plant_scores(experiment, lambda cell: (0.6, 0.42 if cell.objective == "grpo" else 0.4))
    planted.plant_logs(experiment)
    write_claims(experiment)
    (row,) = comparisons(experiment, claim="C9", where="linear", k="1")
    assert row["margin"] == "0.05"
    first, second = (
        policy_scores(experiment, policy, "linear").correct.mean(axis=1)
        for policy in row["cells"].split()
    )
    within, beyond = (
        [
            stats.ttest_1samp(first - second, end, alternative=way).pvalue
            for end, way in zip((-0.05, 0.05), ways, strict=True)
        ]
        for ways in (("greater", "less"), ("less", "greater"))
    )
    assert float(row["p"]) == pytest.approx(min(1, 2 * min(max(within), min(beyond))))
    assert "equivalence_margin = 0.05" in read(experiment)[-3]["note"]


def test_p_values_are_adjusted_within_deciding_and_within_other_comparisons() -> None:
    """Of three deciding p-values, .02, .03 and .9, none is significant after adjustment."""

    def found(p: float, decides: bool) -> Measurement:
        comparison = Comparison("x", "y", "entropy", (), decides=decides)
        value = float(stats.norm.isf(p / 2))
        estimate = Estimate(value, 0.0, 1.0, 1.0, np.inf)
        return Measurement(comparison, estimate, np.nan, 3, 0, 0)

    judged = results_of(
        [found(0.02, True), found(0.03, True), found(0.02, False), found(0.9, True)]
    )
    assert [one.p_adjusted for one in judged] == pytest.approx([0.06, 0.06, 0.02, 0.9])
    assert [one.outcome for one in judged] == ["open", "open", "for", "open"]


def test_growth_is_robust_to_drift_response_length_and_stalls() -> None:
    rng = np.random.default_rng(0)
    kept, tokens = 0.2 + 0.2 * rng.random(200), 9 + rng.random(200)
    drift = np.linspace(0, -5, 200)  # strong, in the opposite direction
    seconds = 0.1 + 0.6 * kept + 0.05 * tokens + drift + 0.001 * rng.standard_normal(200)
    seconds[[40, 140]] += 30
    assert growth_with_fraction(seconds, kept, tokens) == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("seconds_of_all", [0.5, 0.1, -0.3])
def test_dropping_saves_the_time_that_keeping_all_would_add(
    tmp_path: Path, seconds_of_all: float
) -> None:
    experiment = planted.load(tmp_path, grid_of={"mine": [("grpo", 1, 16), ("grpo", 1, 8)]})
    planted.plant_scores(experiment, planted.all_alike)
    planted.plant_logs(experiment, seconds_of_all=seconds_of_all)
    write_claims(experiment)
    (row,) = comparisons(experiment, claim="C11")
    logs = [read_json_lines(experiment.training_log(cell)) for cell in experiment.cells]
    expected = [
        seconds_of_all
        * sum(step["zero_weight"] for step in log)
        / sum(sum(step["seconds"].values()) for step in log)
        for log in logs
    ]
    assert float(row["estimate"]) == pytest.approx(np.mean(expected), abs=0.01)


@pytest.mark.parametrize("kind", ["scores", "log"])
def test_a_missing_input_is_named_and_nothing_written(tmp_path: Path, kind: str) -> None:
    experiment = planted.plant_all(tmp_path, planted.as_claimed, seeds=1)
    cell = "small--rspo-pass--k4--n16--s0"
    scores, log = experiment.scores(cell, "standard", 0), experiment.training_log(cell)
    path = scores if kind == "scores" else log
    assert path in step(experiment).input_files
    path.unlink()
    with pytest.raises(InputError, match=f"{path.name}: no such file"):
        write_claims(experiment)
    assert not any(path.exists() for path in step(experiment).outputs)


def test_policies_with_other_problems_are_not_compared(tmp_path: Path) -> None:
    experiment = planted.plant_all(tmp_path, planted.as_claimed, seeds=1, grid_only="main")
    path = experiment.scores("small--base", "standard", 0)
    other = read_frame(path, SCORES)
    other["benchmark"] = other["benchmark"].map({"linear": "multiply", "multiply": "linear"})
    write_frame(path, SCORES, other)
    attest(step(experiment).inputs())
    with pytest.raises(InputError, match="scores/standard, linear: has other problems than"):
        write_claims(experiment)
