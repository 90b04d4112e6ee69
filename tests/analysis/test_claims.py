"""Verdicts on planted data: as claimed, the opposite, no effect, and missing inputs."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rspo.analysis import measure, studies
from rspo.analysis.claims import CLAIMS, planned, task
from rspo.analysis.comparisons import Comparison, Method, Term
from rspo.analysis.results import (
    read_rows,
    row_of,
    verdict,
    with_p_values,
    write_comparisons,
)
from rspo.analysis.write import write_claims, write_study
from rspo.config.experiment import Cell, Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.core.tables import read_csv
from rspo.estimators import max_at_k, pass_at_k
from rspo.evaluation.read_outcomes import suite_scores
from rspo.evaluation.statistics import Estimate, holm
from rspo.pipeline import tasks
from tests.support import planted
from tests.support.tasks import attest

Rows = list[dict[str, str]]
# The paper's claims, which are made of every config.
PAPERS = [name for name, claim in CLAIMS.items() if not claim.entry]
UNRESOLVED, TIE = "not resolved at this size", "tie within 5 points"
PARTLY = f"partly supported (the rest {TIE})"


def read(experiment: Experiment, name: str = "claims") -> Rows:
    return read_csv(experiment.files.reports / f"{name}.csv").to_dict("records")


def verdicts(experiment: Experiment) -> dict[str, str]:
    write_claims(experiment)
    return {row["claim"]: row["verdict"] for row in read(experiment)}


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Four seeds of every cell, all as the paper claims, and the tested claims."""
    experiment = planted.plant_all(tmp_path_factory.mktemp("claimed"), planted.as_claimed, seeds=4)
    write_claims(experiment)
    return experiment


def comparisons(experiment: Experiment, **wanted: str) -> Rows:
    rows = read(experiment, "claim_comparisons")
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_what_was_planted_is_supported(as_claimed: Experiment) -> None:
    found = {row["claim"]: row["verdict"] for row in read(as_claimed)}
    # The other suite has too few problems to tell each k from its neighbour, and random rewards
    # move the best of many correct responses up.
    assert found == dict.fromkeys(PAPERS, "supported") | dict.fromkeys(("C7", "C8"), UNRESOLVED)


def test_a_supported_claim_names_its_comparison_with_the_largest_p(as_claimed: Experiment) -> None:
    for claim in (row for row in read(as_claimed) if row["verdict"] == "supported"):
        deciding = comparisons(as_claimed, claim=claim["claim"], decides="yes")
        (named,) = (row for row in deciding if row["id"] == claim["comparison"])
        largest = max(float(row["p_computed"]) for row in deciding)
        assert float(named["p_computed"]) == largest
        assert [named[key] for key in ("estimate", "low", "p")] == [
            claim[key] for key in ("estimate", "low", "p")
        ]


def test_a_k_that_ties_its_neighbour_is_not_best_at_itself(tmp_path: Path) -> None:
    def skill(cell: Cell) -> planted.Skill:
        return planted.as_claimed(replace(cell, k=min(cell.k, 4)))

    experiment = planted.plant_all(tmp_path, skill, grid_only="main")
    assert verdicts(experiment)["C3"] == PARTLY


def test_an_advantage_that_is_smaller_on_other_problems_does_not_transfer(tmp_path: Path) -> None:
    """There RSPO is as the baseline, and both are above the base model."""
    experiment = planted.plant_all(tmp_path, planted.as_claimed)
    for number, (name, cell) in enumerate(experiment.cells.items()):
        if (name, "contamination_free") in experiment.evaluations:
            alike = {"newer": planted.all_alike(cell)}
            planted.plant(experiment, name, "contamination_free", alike, number)
    assert verdicts(experiment)["C7"] == "does not transfer"
    found = comparisons(experiment, claim="C7", family="transfer")
    assert [row["k"] for row in found] == ["2", "4", "8"]
    for row in found:
        rspo, baseline = np.array(row["cells"].split()).reshape(2, -1)
        there, here = (
            sum(
                sign * outcomes(experiment, policy, names, int(row["k"])).mean() / len(policies)
                for sign, policies in ((1, rspo), (-1, baseline))
                for policy in policies
            )
            for names in (["newer"], ["linear", "multiply"])
        )
        assert float(row["estimate"]) == pytest.approx(there - here)


def outcomes(experiment: Experiment, policy: str, names: list[str], k: int) -> Any:
    correct = [planted.scores_of(experiment, policy, name).correct for name in names]
    return pass_at_k(planted.SAMPLES, np.concatenate(correct).sum(axis=1), k)


def test_claims_and_studies_read_no_file_that_is_no_input_of_their_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a cell of a study is one of the grid, on another suite."""
    pair = [{"model": "small", "objective": name, "n": 16} for name in ("grpo", "policy_gradient")]
    other = {"title": "Other", "suite": "contamination_free", "cells": pair}
    other["contrasts"] = [{"family": "a", "minus": "policy_gradient"}]
    experiment = planted.plant_all(tmp_path, planted.as_claimed, studies={"other": other})
    read: set[Path] = set()

    def recorded(experiment: Experiment, policy: str, suite: str) -> Any:
        read.add(experiment.files.scores(policy, suite, 0))
        return suite_scores(experiment, policy, suite)

    monkeypatch.setattr(measure, "suite_scores", recorded)
    attest(studies.task(experiment, "other").inputs())
    for write, made in (
        (write_claims, task(experiment)),
        (partial(write_study, name="other"), studies.task(experiment, "other")),
    ):
        read.clear()
        write(experiment)
        assert read
        assert read <= set(made.input_files)


@pytest.mark.parametrize("ks", [(1, 3), (4,)])
def test_claims_are_tested_with_few_values_of_k(tmp_path: Path, ks: tuple[int, ...]) -> None:
    experiment = planted.plant_all(tmp_path, planted.all_alike, seeds=1, ks=ks)
    write_claims(experiment)
    ids = [row["id"] for row in read(experiment, "claim_comparisons")]
    assert len({*ids}) == len(ids) > 20


@pytest.mark.parametrize("trained", [(2,), (2, 4)])
def test_each_difference_on_all_problems_is_planned_once(
    tmp_path: Path, trained: tuple[int, ...]
) -> None:
    """With a single pair of methods it decides, as a mean; else it is for information."""
    pairs = [(name, k, 16) for name in ("rspo_pass_at_k", "hitchhiking") for k in trained]
    cells = [("policy_gradient", 1, 16)]
    plan, _ = planned(planted.load(tmp_path, grid_of={"main": cells + pairs}))
    pooled = [one for one in plan if one.claim == "C1" and one.where == "pooled"]
    for trained_k in trained:
        methods = {f"RSPO k={trained_k}", f"Baseline k={trained_k}"}
        for k in (1, 2, 4, 8):
            (planned_once,) = (
                one
                for one in pooled
                if one.ks == (k,) and {term.method.label for term in one.terms} == methods
            )
            assert planned_once.decides == (len(trained) == 1 and k in (1, 2))


def test_differences_are_formed_within_each_seed(tmp_path: Path) -> None:
    """So the error over seeds is that of the differences, of the seeds that both methods have."""
    experiment = planted.plant_all(tmp_path, planted.all_alike, grid_only="main")
    write_claims(experiment)
    label = {"claim": "C1", "method_a": "RSPO k=4", "k": "2", "where": "linear"}
    (row,) = comparisons(experiment, **label)
    cells = row["cells"].split()
    first, second = (
        np.array([outcomes(experiment, name, ["linear"], 2).mean() for name in names])
        for names in (cells[: len(cells) // 2], cells[len(cells) // 2 :])
    )
    assert int(row["seeds"]) == len(first) == 3
    expected = np.std(first - second, ddof=1) / np.sqrt(3)
    assert float(row["error_seeds"]) == pytest.approx(expected)
    assert float(row["estimate"]) == pytest.approx(np.mean(first - second))


def test_only_the_seeds_that_all_methods_have_are_compared(tmp_path: Path) -> None:
    """Here seed 1 of the baseline is gone, so that its seeds are 0 and 2."""
    experiment = planted.plant_all(tmp_path, planted.all_alike, grid_only="main")
    rspo = tuple(f"small--rspo-pass--k4--n16--s{seed}" for seed in (0, 1, 2))
    baseline = tuple(f"small--hitchhiking--k4--n16--s{seed}" for seed in (2, 0))
    one = Method("one", rspo, "rspo_pass_at_k", 4)
    other = Method("other", baseline, "hitchhiking", 4)
    base = Method("base", ("small--base",))
    measurer = measure.Measurer(experiment)

    def row(*methods: Method) -> dict[str, Any]:
        terms = tuple(Term(method, 1.0 - 2 * i, (2,)) for i, method in enumerate(methods))
        benchmarks = ("linear", "multiply")
        return measurer.measure(Comparison("a", "b", "pass_at_k", terms, benchmarks=benchmarks))

    def mean(name: str) -> float:
        return float(outcomes(experiment, name, ["linear", "multiply"], 2).mean())

    found = row(one, other)
    differences = [mean(rspo[0]) - mean(baseline[1]), mean(rspo[2]) - mean(baseline[0])]
    assert (found["seeds"], found["estimate"]) == (2, pytest.approx(np.mean(differences)))
    assert found["error_seeds"] == pytest.approx(np.std(differences, ddof=1) / np.sqrt(2))
    alone = row(base)
    assert (alone["seeds"], alone["error_seeds"]) == (0, 0.0)
    assert row(one, base)["seeds"] == 3
    with pytest.raises(InputError, match="a and b have terms that cancel"):
        row(one, one)
    apart = replace(other, policies=("small--hitchhiking--k4--n16--s1",))
    with pytest.raises(InputError, match="a and b have no training seed in common"):
        row(replace(one, policies=rspo[:1]), apart)


def test_entropies_are_compared_within_each_seed(tmp_path: Path) -> None:
    experiment = planted.plant_all(tmp_path, planted.all_alike, grid_only="main")
    write_claims(experiment)
    for row in comparisons(experiment, claim="C4"):
        names = row["cells"].split()

        def late(name: str) -> float:
            logged = [
                one["entropy"] for one in read_json_lines(experiment.files.training_log(name))
            ]
            return float(np.mean(logged[-max(1, len(logged) // 3) :]))

        differences = [late(names[seed]) - late(names[seed + 3]) for seed in range(3)]
        expected = stats.ttest_1samp(differences, 0)
        assert float(row["estimate"]) == pytest.approx(np.mean(differences))
        assert float(row["p_computed"]) == pytest.approx(expected.pvalue)


def test_with_three_seeds_no_p_value_is_below_a_hundredth(tmp_path: Path) -> None:
    """Holm's method uses the computed ones, which are."""
    experiment = planted.plant_all(tmp_path, planted.as_claimed, grid_only="main")
    write_claims(experiment)
    rows = read_rows(experiment.files.reports / "claim_comparisons.csv")
    assert (rows["seeds"] == 3).all()
    assert rows["p_computed"].min() < 1e-4
    assert rows["p"].min() == rows["p_adjusted"].min() == 0.01
    for _, family in rows.groupby(["claim", "decides"]):
        adjusted = np.maximum(holm(family["p_computed"]), 0.01)
        assert family["p_adjusted"].tolist() == pytest.approx(adjusted.tolist())


def test_with_two_seeds_nothing_is_tested_and_pages_say_so(tmp_path: Path) -> None:
    experiment = planted.plant_all(tmp_path, planted.as_claimed, seeds=2, grid_only="main")
    found = verdicts(experiment)
    assert found["C1"] == "not tested: two training seeds give intervals and no p-values"
    rows = read_rows(experiment.files.reports / "claim_comparisons.csv")
    assert rows["low"].notna().all()
    assert rows[["p", "p_adjusted", "p_tie", "p_tie_adjusted"]].isna().all(axis=None)
    assert set(rows["outcome"]) == {"open"}


def test_methods_that_solve_nothing_are_no_tie_of_few_problems(tmp_path: Path) -> None:
    """With 160 problems that no method solves, 2 % of all others may be solved by one of them."""
    experiment = planted.plant_all(tmp_path, lambda cell: (0.0, 0.0), grid_only="main")
    write_claims(experiment)
    row, *_ = comparisons(experiment, claim="C1", where="linear", k="2")
    assert float(row["error"]) == 0
    assert float(row["p_tie"]) == pytest.approx(0.95**160)
    one = Comparison("x", "y", "pass_at_k", (), margin=0.02)
    nothing = Estimate(0.0, 0.0, 0.0, 0.0, 29.0)
    assert row_of(one, nothing, problems=30)["p_computed"] == pytest.approx(0.98**30)


def test_the_opposite_is_contradicted(tmp_path: Path) -> None:
    experiment = planted.load(tmp_path)
    planted.plant_scores(experiment, planted.the_opposite, base=(1.0, 0.95))
    planted.plant_logs(experiment, rise=-0.05, seconds_of_all=-0.2)
    assert verdicts(experiment) == dict.fromkeys(PAPERS, "contradicted")


def test_no_effect_is_a_tie_where_there_is_a_margin_and_supports_the_equivalence(
    tmp_path: Path,
) -> None:
    experiment = planted.load(tmp_path)
    planted.plant_scores(experiment, planted.all_alike, base=(0.6, 0.4))
    planted.plant_logs(experiment, rise=0.0, seconds_of_all=0.0)
    expected = dict.fromkeys(PAPERS, TIE) | {"C9": "supported"}
    expected |= dict.fromkeys(("C4", "C11"), UNRESOLVED)
    assert verdicts(experiment) == expected
    (equivalence,) = (row for row in read(experiment) if row["claim"] == "C9")
    assert "equivalence_margin = 0.05" in equivalence["note"]


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
    (ODD_K, "C1", "grid.main has no pair of RSPO and Baseline"),
    (ODD_K, "C2", "grid.main has no pair of Baseline, smaller and next k"),
    (ODD_K, "C3 C4", "grid.main has no policy_gradient"),
    (ODD_K, "C5", "grid.scalability has no pair of RSPO, next and smaller n"),
]


@pytest.mark.parametrize("grid", [{"mine": [("grpo", 1, 16)]}, NO_BASELINE, ODD_K])
def test_a_claim_that_the_grid_lacks_is_not_tested(tmp_path: Path, grid: dict[str, Any]) -> None:
    experiment = planted.plant_all(tmp_path, planted.all_alike, grid_of=grid)
    found = verdicts(experiment)
    assert set(found) == set(PAPERS)
    untested = [row for row in read(experiment) if row["verdict"].startswith("not tested")]
    assert {row["comparisons"] for row in untested} == {"0"}
    for claims, reason in ((claims, reason) for other, claims, reason in LOST if other == grid):
        assert {found[claim] for claim in claims.split()} == {f"not tested: {reason}"}


def test_a_comparison_is_the_paired_test_of_its_two_policies(tmp_path: Path) -> None:
    """One seed, one benchmark, one k: Student's paired test on the problems' estimates."""
    experiment = planted.plant_all(tmp_path, planted.as_claimed, seeds=1, grid_only="main")
    write_claims(experiment)
    label = {"method_a": "RSPO k=4", "method_b": "Baseline k=4", "k": "2", "where": "linear"}
    (row,) = comparisons(experiment, claim="C1", **label)
    rspo, baseline = row["cells"].split()
    right = [planted.scores_of(experiment, policy, "linear").correct for policy in (rspo, baseline)]
    first, second = (pass_at_k(16, one.sum(axis=1), 2) for one in right)
    other = stats.ttest_rel(first, second)
    assert float(row["estimate"]) == pytest.approx(np.mean(first - second))
    assert float(row["p"]) == pytest.approx(other.pvalue)
    interval = float(row["low"]), float(row["high"])
    assert interval == pytest.approx(tuple(other.confidence_interval(0.95)))
    assert (row["seeds"], row["problems"], row["samples"]) == ("1", "160", "16")
    assert row["error_seeds"] == ""
    claims = {found["claim"]: found for found in read(experiment)}
    said = "one training seed: the interval does not cover training variance"
    assert said in claims["C1"]["note"]
    assert (claims["C1"]["problems"], claims["C1"]["samples"]) == ("320", "16")
    assert (claims["C4"]["problems"], claims["C4"]["samples"]) == ("", "")
    # Entropies of two runs have no error that would tell whether the next two differ alike.
    assert claims["C4"]["verdict"] == UNRESOLVED
    assert (claims["C4"]["low"], claims["C4"]["p"]) == ("", "")


def test_max_at_k_is_of_the_rewards(as_claimed: Experiment) -> None:
    row, *_ = comparisons(as_claimed, claim="C8", metric="max_at_k", where="linear", k="2")
    first, second = (
        np.mean(
            [max_at_k(planted.scores_of(as_claimed, one, "linear").rewards, 2) for one in policies]
        )
        for policies in np.array(row["cells"].split()).reshape(2, -1)
    )
    assert float(row["estimate"]) == pytest.approx(first - second)


def test_support_is_not_adjusted_and_the_opposite_is_adjusted_by_holm() -> None:
    """A claim takes all of its comparisons, the opposite only one of them."""

    def found(p: float, sign: int, decides: bool = True) -> dict[str, Any]:
        comparison = Comparison("x", "y", "entropy", (), decides=decides)
        value = sign * float(stats.norm.isf(p / 2))
        estimate = Estimate(value, 1.0, 0.0, 1.0, np.inf)
        return row_of(comparison, estimate)

    judged = with_p_values([found(0.02, 1), found(0.03, 1), found(0.04, 1, decides=False)])
    assert [one["outcome"] for one in judged] == ["for", "for", "for"]
    assert verdict(judged) == "supported"
    judged = with_p_values([found(0.02, -1), found(0.03, 1), found(0.9, 1), found(0.02, 1, False)])
    assert [one["p_adjusted"] for one in judged] == pytest.approx([0.06, 0.06, 0.9, 0.02])
    assert [one["outcome"] for one in judged] == ["open", "for", "open", "for"]
    assert verdict(judged) == UNRESOLVED
    judged = with_p_values([found(0.02, -1), found(0.03, 1)])
    assert verdict(judged) == "contradicted"


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("seconds_of_all", [0.5, 0.1, -0.3])
def test_the_time_that_dropping_saves_is_that_of_the_same_steps_without_it(
    tmp_path: Path, seconds_of_all: float, seeds: int
) -> None:
    experiment = planted.load(tmp_path, seeds=seeds)
    planted.plant_scores(experiment, planted.all_alike)
    planted.plant_logs(experiment, seconds_of_all=seconds_of_all)
    write_claims(experiment)
    for row in comparisons(experiment, claim="C11"):
        seconds = pd.DataFrame(
            [
                {"keeps": "keep-all" in name, "seed": name[-1], "step": one["step"]}
                | one["seconds"]
                for name in row["cells"].split()
                for one in read_json_lines(experiment.files.training_log(name))
            ]
        ).set_index(["seed", "step"])
        keeping, dropping = (seconds[seconds["keeps"] == keeps] for keeps in (True, False))
        added = (keeping["update"] - dropping["update"]).groupby("seed").mean()
        step = dropping[["sample", "reward", "update"]].sum(axis=1).groupby("seed").mean()
        values = added / step if seeds > 1 else keeping["update"] - dropping["update"]
        assert float(row["estimate"]) == pytest.approx((added / step).mean())
        assert float(row["p_computed"]) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
        assert float(row["estimate"]) == pytest.approx(
            (0.65 * seconds_of_all / step).mean(), abs=0.02
        )


def test_other_work_on_the_machine_does_not_change_the_time_that_dropping_saves(
    tmp_path: Path,
) -> None:
    experiment = planted.load(tmp_path, seeds=1)
    planted.plant_scores(experiment, planted.all_alike)
    planted.plant_logs(experiment)
    write_claims(experiment)
    quiet = comparisons(experiment, claim="C11")
    for name in [name for name in experiment.cells if "keep-all" not in name]:
        path = experiment.files.training_log(name)
        rows = read_json_lines(path)
        for row in rows:
            row["seconds"] = {phase: 5 * value for phase, value in row["seconds"].items()}
        write_json_lines(path, rows)
        attest([tasks.log_input(experiment, name)])
    write_claims(experiment, force=True)
    busy = comparisons(experiment, claim="C11")
    for one, other in zip(quiet, busy, strict=True):
        assert float(one["estimate"]) == pytest.approx(float(other["estimate"]))
        assert one["outcome"] == other["outcome"] == "for"


def test_two_comparisons_of_one_name_are_refused(tmp_path: Path) -> None:
    """The report would show the second one in place of the first."""
    with pytest.raises(InputError, match=r"a\.csv: two comparisons are C1/A/B$"):
        write_comparisons(tmp_path / "a.csv", [{"id": "C1/A/B"}] * 2)
    assert not list(tmp_path.iterdir())
