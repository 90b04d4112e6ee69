"""What a reader of the report's first sections learns, against other computations."""

import math
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rspo.analysis.results import read_rows, row_of, with_p_values, write_comparisons
from rspo.analysis.studies import lines_of, planned
from rspo.analysis.write import write_claims
from rspo.config.experiment import Experiment
from rspo.config.load import read_values
from rspo.core.tables import SCORES, read_csv, read_frame
from rspo.evaluation.curves import curves as write_curves
from rspo.evaluation.statistics import Estimate, mean_of_scores
from rspo.figures import difference, draw
from rspo.report import OWN_RATES, PEERS, STUDIES, page_data
from rspo.report import task as report_task
from rspo.report.page import BEGIN, END, environment, write_readme
from rspo.report.page_data import claims
from rspo.report.text import MINUS, one_line, p_value, plus_minus
from tests.support import ROOT, planted

VALUE = rf"([+{MINUS}]?[\d.]+)\u00a0±\u00a0([\d.]+)"


def with_claims(root: Path, skill: Callable[..., planted.Skill], **options: object) -> Experiment:
    experiment = planted.plant_all(root, skill, **options)
    write_claims(experiment)
    draw(experiment, "fig_difference")
    return experiment


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return with_claims(tmp_path_factory.mktemp("claimed"), planted.as_claimed)


@pytest.fixture(scope="module")
def opposite(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return with_claims(tmp_path_factory.mktemp("opposite"), planted.the_opposite)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """All methods are alike; the margin is 5 points."""
    return with_claims(tmp_path_factory.mktemp("alike"), planted.all_alike)


@pytest.fixture(scope="module")
def too_little(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """All methods are alike, which is not known to within the margin of 0.1 points."""
    root = tmp_path_factory.mktemp("little")
    planted.plant_all(root, planted.all_alike)
    changes = {"seeds": 3, "evaluation": {"equivalence_margin": 0.001}}
    experiment = Experiment.load("tiny", changes, root=root)
    write_claims(experiment)
    draw(experiment, "fig_difference")
    return experiment


def pass_at_k(experiment: Experiment, objective: str, k: int, trained_k: int) -> float:
    """Mean over seeds and problems, in percent, from the scores."""
    values = []
    for cell in experiment.cells_of("main"):
        if (cell.objective, cell.k) != (objective, trained_k):
            continue
        for benchmark in experiment.benchmarks_of("standard"):
            frame = read_frame(experiment.files.scores(cell.name, "standard", 0), SCORES, benchmark)
            for right in frame.groupby("problem_id")["correct"].sum():
                wrong = planted.SAMPLES - int(right)
                values.append(1 - math.comb(wrong, k) / math.comb(planted.SAMPLES, k))
    return 100 * sum(values) / len(values)


def sentences(experiment: Experiment) -> Any:
    """The macros of sentences.jinja."""
    return environment(experiment, html=False).get_template("sentences.jinja").module


def sentence_of(experiment: Experiment) -> str:
    return str(sentences(experiment).result())


def reasons_of(experiment: Experiment, name: str) -> list[str]:
    say = sentences(experiment)
    claim = next(one for one in say.claims if one["claim"] == name)
    return [one_line(say.why(claim, one)) for one in claim["not_as_claimed"]]


def test_the_headline_has_the_differences_of_the_scores_and_the_claims_intervals(
    as_claimed: Experiment,
) -> None:
    sentence = sentence_of(as_claimed)
    claimed = read_csv(as_claimed.files.reports / "claim_comparisons.csv").to_dict("records")
    for against, objective, label in (
        ("the baseline", "hitchhiking", "Baseline k={k}"),
        ("policy gradient", "policy_gradient", "PG"),
    ):
        (values,) = re.findall(rf"above {against} by (.*?)(?: and above|\.$)", sentence)
        found = re.findall(rf"{VALUE} \(k\u00a0=\u00a0(\d)\)", values)
        assert [int(k) for *_, k in found] == [2, 4, 8]
        for value, half, k in found:
            other_k = 1 if objective == "policy_gradient" else int(k)
            rspo = pass_at_k(as_claimed, "rspo_pass_at_k", int(k), int(k))
            other = pass_at_k(as_claimed, objective, int(k), other_k)
            assert float(value) == pytest.approx(rspo - other, abs=0.6 * 10 ** -places(value))
            row = next(
                row
                for row in claimed
                if (row["method_a"], row["method_b"]) == (f"RSPO k={k}", label.format(k=k))
                and (row["k"], row["where"]) == (k, "pooled")
            )
            width = 50 * (float(row["high"]) - float(row["low"]))
            assert float(half) == pytest.approx(width, abs=0.6 * 10 ** -places(half))


def places(number: str) -> int:
    return len(number.partition(".")[2])


@pytest.mark.parametrize("objectives", [("rspo_pass_at_k",), ("rspo_pass_at_k", "grpo")])
def test_a_grid_without_baseline_and_policy_gradient_has_no_headline(
    tmp_path: Path, objectives: tuple[str, ...]
) -> None:
    cells = [(name, 4 if "rspo" in name else 1, 16) for name in objectives]
    experiment = with_claims(tmp_path, lambda _: (0.6, 0.4), grid_of={"main": cells})
    assert sentences(experiment).headline["rows"] == []


def test_every_claim_that_is_not_supported_is_explained(opposite: Experiment) -> None:
    rows = read_csv(opposite.files.reports / "claims.csv").to_dict("records")
    found = [one for one in claims(opposite) if one["verdict"] != "supported"]
    assert [one["claim"] for one in found] == [
        row["claim"] for row in rows if row["verdict"] != "supported"
    ]
    assert "contradicted" in {one["verdict"] for one in found}
    comparisons = read_csv(opposite.files.reports / "claim_comparisons.csv")
    for one in found:
        name = one["claim"]
        own = comparisons[(comparisons["claim"] == name) & (comparisons["decides"] == "yes")]
        reasons = reasons_of(opposite, name)
        assert len(reasons) == (own["outcome"] != "for").sum()
        against = ["significantly the opposite" in reason for reason in reasons]
        assert sum(against) == (own["outcome"] == "against").sum()
        assert against == sorted(against, reverse=True)  # they come first


def test_the_headline_says_that_methods_tie(alike: Experiment, too_little: Experiment) -> None:
    said = sentence_of(alike)
    for tie in ("RSPO ties within 5 points with the baseline", "; and with policy gradient"):
        (values,) = re.findall(rf"{tie}: (.*?\))[;.]", said)
        assert [k for *_, k in re.findall(rf"{VALUE} \(k\u00a0=\u00a0(\d)\)", values)] == [*"248"]
    assert "not resolved" not in said
    assert "less than 5 points by two one-sided tests" in str(sentences(alike).remarks())
    said = sentence_of(too_little)
    assert said.count(", is not resolved") == 2
    assert "tie" not in said


def test_the_headline_calls_a_small_but_significant_difference_a_difference(
    alike: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is within the margin, too. Without p-values, as with two seeds, nothing is resolved."""
    drawn = page_data._drawn(alike, difference.FIGURE)
    p_values = [(0.01, 0.01), (0.5, 0.01), (0.5, 0.5), (math.nan, math.nan)]
    rows = [
        row | {"p_adjusted": p, "p_tie_adjusted": p_tie, "estimate": -0.5}
        for row, (p, p_tie) in zip(drawn, p_values, strict=False)
    ]
    monkeypatch.setattr(page_data, "_drawn", lambda *_: rows)
    outcomes = [row["outcome"] for row in page_data.headline(alike)["rows"]]
    assert outcomes == ["below", "tie", "open", "open"]


def test_more_seeds_are_asked_for_only_where_neither_a_difference_nor_a_tie_is_shown(
    alike: Experiment, too_little: Experiment, opposite: Experiment
) -> None:
    asks = ("seeds would halve", "Only more problems would halve")
    (claim,) = (one for one in sentences(alike).claims if one["claim"] == "C1")
    assert claim["verdict"] == "tie within 5 points"
    for reason in reasons_of(alike, "C1"):
        assert re.search(
            r", a tie: within ± 5 by two one-sided tests \(adjusted p [=<] \S+\)\.$", reason
        )
    for reason in reasons_of(too_little, "C1"):
        assert re.search(
            r"(includes 0|\d comparisons), and a tie is not shown either \(adjusted p = \S+\)\.",
            reason,
        )
        assert any(ask in reason for ask in asks)
    for reason in reasons_of(opposite, "C1"):
        assert "significantly the opposite" in reason
        assert not any(ask in reason for ask in asks)


def test_the_page_counts_the_verdicts(alike: Experiment) -> None:
    said = one_line(str(sentences(alike).verdicts()))
    rows = read_csv(alike.files.reports / "claims.csv")["verdict"].tolist()
    ties, supported = rows.count("tie within 5 points"), rows.count("supported")
    assert ties > 1
    are = "is" if supported == 1 else "are"
    assert re.search(rf"Of 12 claims, {supported} {are} supported(,| and) ", said)
    assert re.search(rf"(,| and) {ties} tie within 5 points(,|\.| and) ", said)


def test_a_comparison_without_a_p_value_is_open_and_says_so(alike: Experiment) -> None:
    """As with two training seeds, whose interval may exclude 0."""
    say = sentences(alike)
    claim = next(one for one in say.claims if one["claim"] == "C1")
    one = claim["deciding"][0] | {"outcome": "open", "p": math.nan, "p_adjusted": math.nan}
    one |= {"p_tie_adjusted": math.nan, "low": 0.5, "seeds_to_halve": math.nan}
    assert one_line(say.why(claim, one)).endswith(
        ", without a p-value: two training seeds give an interval only."
    )
    assert p_value(math.nan) == "-"


def test_digits_are_those_of_the_unit() -> None:
    assert plus_minus(3.7560, 2.6, 5.0) == "+3.8\u00a0\u00b1\u00a01.2"
    assert plus_minus(-0.0043, -0.006, -0.0026, "entropy") == f"{MINUS}0.004\u00a0\u00b1\u00a00.002"
    assert plus_minus(-0.04, math.nan, math.nan, signed=False) == "0.0"


def test_a_p_value_is_not_printed_below_the_least_of_its_seeds() -> None:
    assert [p_value(0.01, seeds) for seeds in (1, 3, 5)] == ["= 0.01", "< 0.01", "= 0.01"]
    assert [p_value(0.001, seeds) for seeds in (3, 5)] == ["< 0.01", "< 0.001"]
    assert [p_value(p) for p in (0.00001, 0.0)] == ["< 0.0001", "< 0.0001"]


def test_the_seeds_to_ask_for_halve_the_interval_of_simulated_trainings() -> None:
    """In the mean over trainings that are drawn with known errors."""
    rng = np.random.default_rng(0)
    by_problem, by_seed, by_both, problems = 0.1, 0.02, 0.3, 400

    def drawn(seeds: int) -> Estimate:
        values = by_problem * rng.standard_normal((1, problems))
        values = values + by_seed * rng.standard_normal((seeds, 1))
        values = values + by_both * rng.standard_normal((seeds, problems))
        return mean_of_scores(values, (problems,))

    def half_width(seeds: int) -> float:
        return float(np.mean([np.diff(drawn(seeds).interval()) / 2 for _ in range(300)]))

    asked = []
    for _ in range(300):
        found = drawn(4)
        low, high = found.interval()
        asked.append(page_data._seeds_to_halve(asdict(found) | {"low": low, "high": high}))
    seeds = round(float(np.median(asked)))
    assert half_width(seeds) == pytest.approx(half_width(4) / 2, rel=0.15)


def test_where_problems_are_most_of_the_error_no_number_of_seeds_halves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"seeds": 3, "error": 0.02, "error_seeds": 0.004, "error_problems": 0.0196, "degrees": 99}
    assert page_data._seeds_to_halve(row | {"low": -0.04, "high": 0.04}) == math.inf
    assert math.isnan(page_data._seeds_to_halve(row | {"error_seeds": math.nan}))
    entropy = {"seeds": 3, "error": 0.1, "error_seeds": 0.1, "degrees": 2}
    half = 0.1 * stats.t.isf(0.025, 2)
    entropy |= {"error_problems": math.nan, "low": -half, "high": half}
    expected = next(
        n for n in range(4, 99) if (3 / n) ** 0.5 * 0.1 * stats.t.isf(0.025, n - 1) <= half / 2
    )
    assert page_data._seeds_to_halve(entropy) == expected
    monkeypatch.setattr(page_data, "SEEDS_LIMIT", expected)
    assert page_data._seeds_to_halve(entropy) == expected
    monkeypatch.setattr(page_data, "SEEDS_LIMIT", expected - 1)
    assert page_data._seeds_to_halve(entropy) == math.inf


def test_problems_and_seeds_share_the_critical_t_of_the_interval_to_halve() -> None:
    """Equal variances, so it is the mean of both."""

    def half(seeds: int) -> float:
        critical = (stats.t.isf(0.025, 400) + stats.t.isf(0.025, seeds - 1)) / 2
        return float((3 / seeds) ** 0.5 * 0.1 * critical)

    row = {"seeds": 3, "error": 0.1, "error_seeds": 0.1, "error_problems": 0.1, "degrees": 400}
    expected = next(seeds for seeds in range(4, 99) if half(seeds) <= half(3) / 2)
    asked = page_data._seeds_to_halve(row | {"low": -half(3), "high": half(3)})
    assert asked == expected


def test_differences_below_zero_are_said_with_the_figure_that_shows_them(
    opposite: Experiment, as_claimed: Experiment
) -> None:
    said = one_line(str(sentences(opposite).exceptions()))
    table = read_csv(opposite.files.reports / "claim_comparisons.csv")
    for claim, figure in (("C1", "fig_difference"), ("C7", "fig_contamination_free")):
        part = said.partition(f"In {figure},")[2].partition(" In fig_")[0]
        rows = table[(table["claim"] == claim) & (table["where"] == "pooled")]
        for k in (2, 4, 8):
            pair = (rows["method_a"] == f"RSPO k={k}") & (rows["method_b"] == f"Baseline k={k}")
            (row,) = rows[pair & (rows["k"] == str(k)) & (rows["family"] == "")].to_dict("records")
            is_below = float(row["estimate"]) < 0
            assert (f"RSPO k={k} - Baseline k={k}, Pass@{k}" in part) == is_below
    assert "significantly" in said
    assert "In fig_difference" not in str(sentences(as_claimed).exceptions())


def test_gains_are_counted_by_benchmark(opposite: Experiment, as_claimed: Experiment) -> None:
    """Where RSPO is below the baseline everywhere, on both benchmarks; as claimed, on none."""
    labels = [one.label for one in opposite.config.data.suites["standard"].values()]
    assert page_data.gains(opposite) == [page_data.Gains("baseline", [], labels, labels)]
    assert page_data.gains(as_claimed) == [page_data.Gains("baseline", labels, [], [])]
    assert str(sentences(as_claimed).no_gain()).strip() == ""


def test_benchmarks_with_and_without_a_gain_are_said_in_the_shorter_way(
    opposite: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = sentences(opposite)
    found = [
        page_data.Gains("baseline", ["one", "two"], ["three"], []),
        page_data.Gains("policy gradient", [], ["one", "two", "three"], ["three"]),
        page_data.Gains("GRPO", ["one"], ["two", "three"], ["two", "three"]),
    ]
    monkeypatch.setattr(page_data, "gains", lambda _: found)
    assert one_line(str(say.no_gain())).strip() == (
        "At the shared rate, on single benchmarks, RSPO is significantly above the baseline on "
        "all but three, policy gradient on none and GRPO on one only, at one at least of the k "
        "that it is trained for (p is adjusted over 6 comparisons). By the estimates, RSPO is "
        "below policy gradient on three and below GRPO on two and three at each of these k."
    )


def test_p_values_of_single_benchmarks_are_adjusted_over_all_of_them(
    opposite: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = page_data._comparisons(opposite)
    changed = [row | {"p_computed": 0.01, "p_tie": 0.9} for row in rows]
    monkeypatch.setattr(page_data, "_comparisons", lambda _: changed)
    found = page_data.compared_by_benchmark(opposite)
    assert len(found) == 2 * 3  # two benchmarks, and three k
    assert [row["p_adjusted"] for row in found] == pytest.approx([0.06] * 6)


def test_what_becomes_of_claims_of_our_own_is_said_for_each_method_without_a_k(
    alike: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {"p_adjusted": 0.001, "p_tie_adjusted": 0.9}
    tie = {"p_adjusted": 0.9, "p_tie_adjusted": 0.001}
    nothing = {"p_adjusted": 0.9, "p_tie_adjusted": 0.9}
    rows = [
        {"claim": "A1", "k": "16", "method_b": "RSPO k=4", "estimate": 0.1} | tie,
        {"claim": "A1", "k": "2", "method_b": "RSPO k=4", "estimate": 3.0} | shown,
        {"claim": "A2", "k": "2", "method_b": "MaxRL", "estimate": 2.0} | nothing,
        {"claim": "A2", "k": "2", "method_b": "GRPO", "estimate": -2.0} | shown,
        {"claim": "A2", "k": "4", "method_b": "GRPO", "estimate": 9.0, "decides": "no"} | shown,
    ]
    rows = [{"decides": "yes", "low": row["estimate"] - 1} | row for row in rows]
    monkeypatch.setattr(
        page_data, "_comparisons", lambda _: [row | {"high": row["low"] + 2} for row in rows]
    )
    monkeypatch.setattr(page_data, "claims", lambda _: [])
    said = one_line(str(sentences(alike).own_claims())).replace("\u00a0", " ").strip()
    assert str(sentences(alike).own_ties()).strip() == "Ties are by adjusted p."
    start = "Training for the k of evaluation (k = 1: policy gradient) minus"
    assert said == (
        f"{start} training for k = 4 throughout is +3.0 ± 1.0 (k = 2) and +0.1 ± 1.0 (k = 16, a "
        f"tie). {start} MaxRL, which has no k, is +2.0 ± 1.0 (k = 2, not resolved). {start} GRPO, "
        f"which has no k, is {MINUS}2.0 ± 1.0 (k = 2)."
    )


def test_a_k_at_which_all_differences_tie_is_named(
    alike: Experiment, opposite: Experiment, too_little: Experiment
) -> None:
    ties = "At k = 2, 4, 8, RSPO ties with all of them."
    assert one_line(str(sentences(alike).all_ties())).strip() == ties
    for other in (opposite, too_little):
        assert str(sentences(other).all_ties()).strip() == ""


def with_own_rates(root: Path) -> Experiment:
    """The config's study of own rates, whose published table has one result of each kind."""
    entry = read_values(ROOT / "config" / "tiny.yaml")["studies"]
    for contrast in entry["own_rates"]["contrasts"]:
        if "benchmarks" in contrast:  # of five, of which two are planted
            is_plain = contrast["family"].endswith("no hidden rule")
            contrast["benchmarks"] = ["linear" if is_plain else "multiply"]
    planted.load(root, studies={name: entry[name] for name in ("own_rates", "learning_rates")})
    experiment = Experiment.load("tiny", root=root)
    lines = [line for line in lines_of(experiment, "own_rates") if line.variant == "lr-same"]
    results = {
        "Baseline": (0.061, 0.001, 0.9),
        "PG": (-0.004, 0.5, 0.001),
        "GRPO": (-0.032, 0.001, 0.9),
    }
    rows = []
    for one in planned(experiment, "own_rates", lines):
        rows.append(row_of(one, Estimate(0.5, 0.01, 0.01, 0.01, 4.0, 5), 890, 128))
    for row in with_p_values(rows, "own_rates"):
        row["outcome"] = ""
        if row["family"]:
            # At one rate, everything is the opposite of what the page should say.
            sign = 1 if row["family"].endswith("own rates") else -1
            value, p, p_tie = results[row["method_b"].partition(" k=")[0]]
            row |= {"estimate": sign * value, "p_computed": p, "p_tie": p_tie}
            row |= {"low": sign * value - 0.01, "high": sign * value + 0.01}
        elif (row["method_a"], row["variant"], row["k"]) == ("PG", "lr-third", "8"):
            row["estimate"] = 0.49  # all others are 0.5
    folder = root / STUDIES
    folder.mkdir(parents=True, exist_ok=True)
    write_comparisons(folder / f"{OWN_RATES}.csv", rows)
    slower = "models.small.learning_rate = 6.7e-05, training.validation.every = 150"
    methods = [
        {"method": "PG", "setting": "training.validation.every = 150", "variant": "lr-same"},
        {"method": "PG", "setting": slower, "variant": "lr-third", "chosen_at": "4 8"},
        {"method": "GRPO", "setting": "training.validation.every = 150", "variant": "lr-same"},
        {"method": "GRPO", "setting": slower, "variant": "lr-third", "chosen_at": "2 4"},
    ]
    at_edge = {"PG": {"at_edge": "yes", "best_at": "1 8"}, "GRPO": {"at_edge": "no"}}
    methods = [method | at_edge[method["method"]] for method in methods]
    pd.DataFrame(methods).to_csv(folder / f"{OWN_RATES}_methods.csv", index=False)
    for end in ("", "_methods"):
        pd.DataFrame({"seeds": [1]}).to_csv(folder / f"learning_rates{end}.csv", index=False)
    return experiment


def test_the_differences_at_own_rates_are_those_of_the_published_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_own_rates(tmp_path)
    # No results of the experiment itself.
    monkeypatch.setattr(page_data, "headline", lambda _: {"rows": []})
    monkeypatch.setattr(page_data, "claims", lambda _: [])
    said = one_line(str(sentences(experiment).own_rates())).strip().replace("\u00a0", " ")
    start = "With each method at the learning rate of three that validation chooses "
    start += "for it at this k (5 "
    assert said.startswith(
        start + "training seeds), RSPO is above the baseline by 6.1 ± 1.0 (k = 2)"
    )
    assert "and below GRPO by 3.2 ± 1.0 (k = 2), 3.2 ± 1.0 (k = 4)" in said
    assert f"; it ties within 5 points with policy gradient: {MINUS}0.4 ± 1.0" in said
    before = report_task(experiment).settings_hash
    (experiment.root / STUDIES / f"{OWN_RATES}.csv").unlink()
    assert page_data.own_rates(experiment) == []
    # A report with another published table is another report.
    assert report_task(experiment).settings_hash != before


def test_how_the_rates_are_chosen_is_said_beside_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference to policy gradient at k = 4 is that of the headline."""
    experiment = with_own_rates(tmp_path)
    rows = [
        {"against": "policy gradient", "k": "4", "estimate": -0.4},
        {"against": "policy gradient", "k": "8", "estimate": -0.5},
        {"against": "GRPO", "k": "2", "estimate": -0.4},
    ]
    monkeypatch.setattr(page_data, "headline", lambda _: {"rows": rows})
    monkeypatch.setattr(page_data, "claims", lambda _: [])
    assert one_line(str(sentences(experiment).how_chosen())).strip() == (
        "One training seed, which is among these, chooses the rates. Of 4 that are not the shared "
        "rate, 1 is the best in validation and the lowest or the highest of the three: a rate "
        "outside may be better. On the test problems, which choose nothing, the chosen rate has "
        "less than the shared one, by the estimates, for PG at Pass@8 (49.0 instead of 50.0 %)."
    )
    assert one_line(str(sentences(experiment).same_rates())).strip() == (
        "Where both have the shared rate, the difference is the same as above: policy gradient at "
        "k = 4."
    )
    (experiment.root / STUDIES / "learning_rates.csv").unlink()
    assert str(sentences(experiment).how_chosen()).strip() == ""
    assert str(sentences(experiment).same_rates()).strip() == ""


def test_the_best_baseline_at_a_k_is_named_if_it_was_trained_for_another_one(
    as_claimed: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = {("hitchhiking", 2): 50.0, ("hitchhiking", 4): 48.0, ("rspo_pass_at_k", 4): 53.0}
    levels |= {("hitchhiking", 8): 40.0, ("rspo_pass_at_k", 8): 49.5, ("rspo_pass_at_k", 2): 52.0}
    table = {}
    for (objective, trained_k), estimate in levels.items():
        row = {"objective": objective, "trained_k": trained_k, "estimate": estimate}
        table[f"{objective} {trained_k}"] = [row | {"k": k} for k in (2, 4, 8)]
    monkeypatch.setattr(page_data, "main_table", lambda _: table)
    assert one_line(str(sentences(as_claimed).best_baselines())).strip() == (
        "By the estimates, the baseline that is trained for k = 2 is the best baseline also at "
        f"Pass@4 and Pass@8; RSPO minus it is +3.0 and {MINUS}0.5."
    )
    for row in table["hitchhiking 4"]:
        row["estimate"] = 50.0 + (row["k"] == 4)
    for row in table["hitchhiking 8"]:
        row["estimate"] = 50.0 + 2 * (row["k"] == 8)
    assert str(sentences(as_claimed).best_baselines()).strip() == ""


PEER_RESULTS = [
    ("RSPO k=16", "rspo_pass_at_k", 0.001, 0.9, -9.0),
    ("GRPO", "grpo", 0.001, 0.9, -3.0),
    ("PKPO s k=4", "pkpo_s", 0.001, 0.9, -2.0),
    ("MaxRL", "maxrl", 0.9, 0.001, 0.1),
    ("MaxPO k=4", "maxpo", 0.9, 0.9, -0.1),
]


def test_objectives_of_other_papers_are_counted_at_each_k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither RSPO with another k nor the methods of the headline are among them."""
    experiment = with_own_rates(tmp_path)
    monkeypatch.setattr(page_data, "headline", lambda _: {"rows": []})
    monkeypatch.setattr(page_data, "claims", lambda _: [])
    assert str(sentences(experiment).peers()).strip() == ""
    rows = []
    for k in ("2", "4", "8"):
        for name, _, p, p_tie, value in PEER_RESULTS:
            row = {"method_a": name, "method_b": f"RSPO k={k}", "k": k, "family": f"Pass@{k}"}
            # One that is below RSPO k=2 and 4 is above RSPO k=8.
            value = 2.0 if (name, k) == ("PKPO s k=4", "8") else value
            row |= {"p_adjusted": p, "p_tie_adjusted": p_tie, "estimate": value, "seeds": 5}
            rows.append(row)
            rows.append(row | {"method_b": "", "family": "", "estimate": 0.5})
    methods = [
        {"method": name, "objective": objective, "trained_k": "4.0" if "k=" in name else ""}
        for name, objective, *_ in PEER_RESULTS
    ]
    folder = experiment.root / STUDIES
    pd.DataFrame(methods).to_csv(folder / f"{PEERS}_methods.csv", index=False)
    (folder / f"{PEERS}.csv").write_text("")

    def read(path: Path) -> pd.DataFrame:
        return pd.DataFrame(rows) if path.stem == PEERS else read_rows(path)

    monkeypatch.setattr(page_data, "read_rows", read)
    entries = experiment.config.studies | {PEERS: experiment.config.studies[OWN_RATES]}
    config = experiment.config.model_copy(update={"studies": entries})
    experiment = replace(experiment, config=config)
    assert one_line(str(sentences(experiment).peers())).strip() == (
        "Of 3 objectives of other papers, each at its own rate and, if it has a k, trained for k = "
        "4 only (5 training seeds), 1, 1 and none are significantly below RSPO at k = 2, 4 and 8, "
        "1, 1 and 1 tie within 5 points, and none, none and 1 are above; the others are not "
        "resolved."
    )


def test_what_is_left_on_other_problems_is_said_with_the_k_at_which_it_is_lost(
    alike: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each p is adjusted over the sentence, whatever the family of the claim is."""
    rows = []
    for k, other, value, p, p_tie in (
        ("2", "Baseline k=2", 3.0, 0.001, 0.9),
        ("4", "Baseline k=4", -1.0, 0.4, 0.5),
        ("2", "PG", 0.1, 0.9, 0.001),
        ("4", "PG", 2.0, 0.02, 0.9),  # .06 over the four by Holm's method
    ):
        row = {"claim": "C7", "where": "pooled", "family": "", "k": k, "method_b": other}
        row |= {"method_a": f"RSPO k={k}", "estimate": value, "p_computed": p, "p_tie": p_tie}
        row |= {"p_adjusted": 0.9, "p_tie_adjusted": 0.9, "seeds": 5}
        rows.append(row | {"low": value - 1, "high": value + 1})
    lost = [{"k": "2", "outcome": "open"}, {"k": "4", "outcome": "against"}]
    verdicts = [{"claim": "C7", "verdict": "does not transfer", "transfer": lost}]
    monkeypatch.setattr(page_data, "_comparisons", lambda _: rows)
    monkeypatch.setattr(page_data, "claims", lambda _: verdicts)
    said = str(sentences(alike).transfer("other problems"))
    assert one_line(said).replace("\u00a0", " ").strip() == (
        "On other problems, RSPO is above the baseline by 3.0 ± 1.0 (k = 2); it ties within 5 "
        "points with policy gradient: +0.1 ± 1.0 (k = 2); its difference to the baseline, "
        f"{MINUS}1.0 ± 1.0 (k = 4), is not resolved; its difference to policy gradient, +2.0 ± 1.0 "
        "(k = 4), is not resolved: the advantage over the baseline is significantly smaller than "
        "above at k = 4, and does not transfer."
    )
    verdicts[0]["verdict"] = "supported"
    assert one_line(str(sentences(alike).transfer("other problems"))).endswith("not resolved.")
    monkeypatch.setattr(page_data, "_comparisons", lambda _: [])
    assert str(sentences(alike).transfer("other problems")).strip() == ""


def test_p_values_of_own_rates_are_adjusted_over_the_whole_sentence(tmp_path: Path) -> None:
    """Not only over its three families of three, as those of the study's own page."""
    experiment = with_own_rates(tmp_path)
    path = experiment.root / STUDIES / f"{OWN_RATES}.csv"
    table = read_csv(path)
    table.loc[table["family"] != "", ["p_computed", "p_tie"]] = ["0.01", "0.9"]
    table.to_csv(path, index=False)
    adjusted = [row["p_adjusted"] for row in page_data.own_rates(experiment)]
    assert adjusted == pytest.approx([0.09] * 9)


@pytest.mark.parametrize("per_seed", [True, False])
def test_readme_says_whether_each_seed_has_a_base_model(tmp_path: Path, per_seed: bool) -> None:
    main = [("policy_gradient", 1, 16)]
    main += [(name, k, 16) for name in ("rspo_pass_at_k", "hitchhiking") for k in (4, 8)]
    planted.load(tmp_path, grid_of={"main": main, "grpo": [("grpo", 1, 16)]})
    evaluation = {"samples": 32, "k": [1, 2, 4, 8, 16]}
    changes = {"seeds": 3, "base_per_seed": per_seed, "evaluation": evaluation}
    experiment = Experiment.load("tiny", changes, root=tmp_path)
    planted.plant_scores(experiment, planted.the_opposite)
    planted.plant_logs(experiment)
    for policy, suite in experiment.evaluations:
        write_curves(experiment, policy, suite)
    write_claims(experiment)
    for name in ("fig_difference", "fig_grpo", "fig_main"):
        draw(experiment, name)
    file = tmp_path / "README.md"
    file.write_text(f"{BEGIN}\n{END}\n")
    write_readme(experiment, file, experiment.files.reports)
    text = " ".join(file.read_text().split())
    per_base = "Means of 3 training seeds, each from a base model of its own, over"
    assert (per_base in text) == per_seed
    assert ("learning rate, one base model." in text) != per_seed
