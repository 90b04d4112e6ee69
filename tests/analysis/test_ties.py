"""Ties: what is planned, what the outcomes and verdicts are, and how often they are wrong."""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rspo.analysis.claims import CLAIMS, claims_of, planned
from rspo.analysis.comparisons import Comparison
from rspo.analysis.results import row_of, verdict, with_p_values
from rspo.analysis.write import _claim_row, write_claims
from rspo.config.experiment import Cell, Experiment
from rspo.config.registered import OWN_REWARDS, Reward
from rspo.core.tables import read_csv
from rspo.estimators import pass_at_k
from rspo.evaluation.statistics import Estimate
from tests.support import planted

MARGIN, ERROR, DEGREES = 0.02, 0.005, 8
LEVEL = 0.05
TIE = "tie within 2 points"
PARTLY = "partly supported (the rest tie within 2 points)"
OPEN = "not resolved at this size"


def row(estimate: Estimate, decides: bool = True, margin: float | None = MARGIN) -> dict[str, Any]:
    comparison = Comparison("x", "y", "pass_at_k", (), decides=decides, tie_margin=margin)
    return row_of(comparison, estimate)


def judged(values: Sequence[float], error: float = ERROR, **more: Any) -> list[dict[str, Any]]:
    """The tested comparisons of a claim with these estimates."""
    estimates = [Estimate(value, error, 0.0, error, DEGREES) for value in values]
    return with_p_values([row(estimate, **more) for estimate in estimates])


# --- what is planned -----------------------------------------------------------------------------


def test_a_tie_is_planned_for_every_claim_about_pass_at_k_or_max_at_k(tmp_path: Path) -> None:
    """Not where the claim is a tie, for entropy and time, and between two suites."""
    experiment = planted.load(tmp_path)
    plan, _ = planned(experiment)
    papers = claims_of(experiment)
    margins = {
        claim: {one.tie_margin for one in plan if one.claim == claim and one.decides}
        for claim in papers
    }
    without = ("C4", "C9", "C11")
    assert margins == {claim: {None if claim in without else 0.05} for claim in papers}
    assert {one.tie_margin for one in plan if one.family == "transfer"} == {None}


def test_rewards_of_ones_own_have_no_margin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their range is not known, so that 0.02 may be much or nothing."""
    monkeypatch.setitem(OWN_REWARDS, "cents", Reward("cents", lambda responses: []))
    experiment = planted.load(tmp_path)
    mine = Experiment.load("tiny", {"evaluation": {"reward": "cents"}}, root=tmp_path)
    for one, expected in ((experiment, {0.05}), (mine, {None})):
        plan, _ = planned(one)
        assert {each.tie_margin for each in plan if each.metric == "max_at_k"} == expected


# --- outcomes and verdicts -----------------------------------------------------------------------


def test_p_of_a_tie_is_that_of_two_one_sided_tests(tmp_path: Path) -> None:
    """One seed, one benchmark, one k: of Student's paired tests on the problems' estimates."""
    experiment = planted.plant_all(tmp_path, planted.all_alike, seeds=1, grid_only="main")
    write_claims(experiment)
    rows = read_csv(experiment.files.reports / "claim_comparisons.csv").to_dict("records")
    label = {"claim": "C1", "method_a": "RSPO k=4", "k": "2", "where": "linear"}
    (found,) = (one for one in rows if label.items() <= one.items())
    first, second = (
        pass_at_k(16, planted.scores_of(experiment, policy, "linear").correct.sum(axis=1), 2)
        for policy in found["cells"].split()
    )
    difference = np.asarray(first) - np.asarray(second)
    below = stats.ttest_1samp(difference, 0.05, alternative="less").pvalue
    above = stats.ttest_1samp(difference, -0.05, alternative="greater").pvalue
    assert float(found["tie_margin"]) == 0.05
    assert float(found["p_tie"]) == pytest.approx(max(below, above))


def test_ties_are_adjusted_over_all_that_decide_a_claim_and_may_tie() -> None:
    """By Holm, which is the closed test of all subsets, each by Bonferroni."""
    values = [0.001, 0.004, -0.008, 0.03, 0.011]
    rows = [row(Estimate(value, ERROR, 0.0, ERROR, DEGREES)) for value in values]
    others = judged([0.0], decides=False), judged([0.0], margin=None)
    rows = with_p_values([*rows, *(one for (one,) in others)])
    tested = rows[:5]
    p = [one["p_tie"] for one in tested]
    subsets = [chosen for size in range(1, 6) for chosen in combinations(range(5), size)]
    for number, one in enumerate(tested):
        closed = max(
            min(1.0, len(chosen) * min(p[other] for other in chosen))
            for chosen in subsets
            if number in chosen
        )
        assert one["p_tie_adjusted"] == pytest.approx(closed)
    assert rows[5]["p_tie_adjusted"] == rows[5]["p_tie"]  # alone in the family of the others
    assert np.isnan(rows[6]["p_tie_adjusted"])


VERDICTS = [
    ([0.03, 0.04], "for for", "supported"),
    ([0.03, -0.03], "for against", "contradicted"),
    ([0.03, 0.001], "for tie", PARTLY),
    ([0.0, 0.001], "tie tie", TIE),
    # Above 0 before Holm's method, but not after it.
    ([0.013, 0.001, 0.0, 0.0], "for tie tie tie", TIE),
    ([0.03, 0.009], "for open", OPEN),
    ([0.001, 0.011], "tie open", OPEN),
    ([-0.03, 0.001], "against tie", "contradicted"),
]


@pytest.mark.parametrize(("values", "outcomes", "expected"), VERDICTS)
def test_a_claim_ties_if_each_comparison_does_and_is_partly_supported_if_others_are_as_claimed(
    values: list[float], outcomes: str, expected: str
) -> None:
    rows = judged(values)
    assert " ".join(one["outcome"] for one in rows) == outcomes
    assert verdict(rows) == expected


def test_a_difference_comes_before_a_tie() -> None:
    """Both are known: it is smaller than the margin, and not 0."""
    for value, outcome, expected in (
        (0.008, "for", "supported"),
        (-0.008, "against", "contradicted"),
    ):
        rows = judged([value], error=0.001)
        assert rows[0]["p_tie_adjusted"] < LEVEL
        assert rows[0]["outcome"] == outcome
        assert verdict(rows) == expected


def test_without_an_error_or_a_p_value_nothing_is_a_tie() -> None:
    """One training run has no error; two seeds have an interval and no p-value."""
    unknown = Estimate(0.0, np.nan, np.nan, np.nan, np.nan)
    rows = with_p_values([row(unknown)])
    assert verdict(rows) == OPEN
    rows = [
        row(Estimate(value, ERROR, error_seeds, ERROR, DEGREES, seeds))
        for value, error_seeds, seeds in ((0.0, 0.001, 2), (0.03, 0.0, 0))
    ]
    assert np.isnan([rows[0]["p_computed"], rows[0]["p_tie"]]).all()
    rows = with_p_values(rows)
    assert [one["outcome"] for one in rows] == ["open", "for"]
    assert verdict(rows) == OPEN
    for order in (rows, rows[::-1]):  # the weakest evidence is none
        assert _claim_row(CLAIMS["C1"], order)["estimate"] == 0.0


@pytest.mark.parametrize(("seeds", "least"), [(1, 0.0), (3, 0.01), (5, 0.001)])
def test_the_p_value_of_a_tie_is_not_below_the_least_of_its_seeds(seeds: int, least: float) -> None:
    (found,) = with_p_values([row(Estimate(0.0, 1e-4, 1e-6, 1e-4, 1000, seeds))])
    assert found["p_tie"] < 1e-4
    assert found["p_tie_adjusted"] == pytest.approx(max(least, found["p_tie"]))
    assert found["outcome"] == "tie"


# --- on planted data -----------------------------------------------------------------------------


def verdicts(experiment: Experiment) -> dict[str, str]:
    write_claims(experiment)
    rows = read_csv(experiment.files.reports / "claims.csv").to_dict("records")
    return {one["claim"]: one["verdict"] for one in rows}


def slightly_above(cell: Cell) -> planted.Skill:
    """RSPO solves three in a hundred more of the problems than the baseline."""
    return (0.63 if cell.objective.startswith("rspo") else 0.6, 0.9)


PLANTED: list[tuple[Callable[[Cell], planted.Skill], float, str]] = [
    (planted.as_claimed, 0.05, "supported"),
    (planted.the_opposite, 0.05, "contradicted"),
    (planted.all_alike, 0.05, "tie within 5 points"),
    (planted.all_alike, 0.001, OPEN),  # not known as well as that
    (slightly_above, 0.05, "supported"),  # and less than 5 points
]


@pytest.mark.parametrize(("skill", "margin", "expected"), PLANTED)
def test_the_verdict_is_what_was_planted(
    tmp_path: Path, skill: Callable[[Cell], planted.Skill], margin: float, expected: str
) -> None:
    planted.plant_all(tmp_path, skill, grid_only="main")
    changes = {"seeds": 3, "evaluation": {"equivalence_margin": margin}}
    assert verdicts(Experiment.load("tiny", changes, root=tmp_path))["C1"] == expected


# --- how often they are wrong --------------------------------------------------------------------

TRIALS = 1000


def drawn(
    rng: np.random.Generator, truth: Sequence[float], error: float, degrees: int = DEGREES
) -> list[dict[str, Any]]:
    """The tested comparisons of a claim whose differences have these true values."""
    estimates = []
    for value in truth:
        seen = error * np.sqrt(rng.chisquare(degrees) / degrees)
        estimate = value + error * rng.standard_normal()
        estimates.append(Estimate(estimate, seen, 0.0, seen, degrees))
    return with_p_values([row(estimate) for estimate in estimates])


def at_most(share: float) -> float:
    """What a share of this size exceeds in one of ten thousand simulations."""
    return float(stats.binom.isf(1e-4, TRIALS, share)) / TRIALS


# The true differences of a claim's comparisons in margins, and the margin in standard errors.
WRONG = [
    ([1.0], 4.0),
    ([-1.0], 4.0),
    ([1.0], 2.5),
    ([1.0] * 4, 3.6),
    ([1.0] * 12, 3.7),
    ([-1.0] + [3.0] * 5, 3.6),
    ([0.0] * 3 + [1.0] * 3, 5.0),
]


@pytest.mark.parametrize("degrees", [DEGREES, 40])
@pytest.mark.parametrize(("truth", "precision"), WRONG)
def test_a_difference_of_the_margin_is_called_a_tie_in_at_most_one_of_twenty_claims(
    truth: list[float], precision: float, degrees: int
) -> None:
    """Also if all comparisons of the claim differ by the margin, and any of them may tie."""
    rng = np.random.default_rng(0)
    values = [MARGIN * value for value in truth]
    wrong = 0
    for _ in range(TRIALS):
        rows = drawn(rng, values, MARGIN / precision, degrees)
        outcomes = [one["outcome"] for one in rows]
        wrong += any(
            outcome == "tie" and abs(value) == MARGIN
            for outcome, value in zip(outcomes, values, strict=True)
        )
    assert wrong / TRIALS <= at_most(LEVEL)


def test_without_the_adjustment_ties_would_be_wrong_more_often() -> None:
    """Which comparisons are not as claimed is known from the data only: they are chosen."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(TRIALS):
        rows = drawn(rng, [MARGIN] * 12, MARGIN / 3.7, degrees=40)
        others = [one for one in rows if one["outcome"] != "for"]
        wrong += bool(others) and all(one["p_tie"] < LEVEL for one in others)
    assert wrong / TRIALS > 5 * LEVEL


def test_no_difference_is_a_tie_where_the_margin_is_five_errors() -> None:
    rng = np.random.default_rng(0)
    found = [verdict(drawn(rng, [0.0] * 6, MARGIN / 5)) for _ in range(TRIALS)]
    assert (found.count(TIE) + found.count(PARTLY)) / TRIALS > 0.8
    assert found.count(PARTLY) / TRIALS <= at_most(LEVEL)
    assert found.count("contradicted") / TRIALS <= at_most(LEVEL)
    assert found.count("supported") == 0


def test_a_claim_that_is_right_is_seldom_a_tie_or_contradicted() -> None:
    rng = np.random.default_rng(0)
    found = [verdict(drawn(rng, [2 * MARGIN] * 6, MARGIN / 4)) for _ in range(TRIALS)]
    assert found.count("supported") / TRIALS > 0.95
    assert found.count("contradicted") + found.count(TIE) + found.count(PARTLY) <= TRIALS * at_most(
        LEVEL
    )
