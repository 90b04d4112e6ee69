"""What a reader of the report's first sections learns, against other computations."""

import math
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from rspo.report.rounding import MINUS, decimals, interval, plus_minus, rounded
from rspo.report.sections.claims import claims
from rspo.report.sections.headline import headline
from rspo.report.sections.method import example
from rspo.report.sections.unresolved import Unresolved, unresolved

from rspo.claims.write import write_claims
from rspo.config.experiment import Experiment
from rspo.core.tables import SCORES, read_csv, read_frame, write_csv
from rspo.evaluation.seeds_needed import seeds_needed
from rspo.evaluation.statistics import Estimate
from rspo.figures import FIGURES, draw
from rspo.report import table_path
from tests.support import planted
from tests.support.steps import adopt

VALUE = rf"([+{MINUS}]?[\d.]+)\u00a0±\u00a0([\d.]+)"


def test_the_worked_weights_are_those_of_the_definitions() -> None:
    shown = example()
    rewards, n, k = [int(right) for right in shown.correct], shown.n, shown.k
    groups = [max(rewards[i - i % k : i - i % k + k]) for i in range(n)]
    marginal = []
    for i in range(n):
        others = [*rewards[:i], *rewards[i + 1 :]]
        subsets = list(combinations(others, k - 1))
        gains = [max(*subset, rewards[i]) - max(subset) for subset in subsets]
        marginal.append(sum(gains) / len(subsets))
    expected = {
        "PG": [reward / n for reward in rewards],
        "baseline": [k / n * best for best in groups],
        "RSPO": [k / n * gain for gain in marginal],
    }
    assert list(shown.weights) == list(expected)
    for name, weights in shown.weights.items():
        assert [float(weight) for weight in weights] == pytest.approx(expected[name], abs=5e-4)


def with_claims(root: Path, skill: Callable[..., planted.Skill], **options: object) -> Experiment:
    experiment = planted.plant_all(root, skill, **options)
    write_claims(experiment)
    draw(experiment, "fig_difference")
    return experiment


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return with_claims(tmp_path_factory.mktemp("claimed"), planted.as_claimed)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return with_claims(tmp_path_factory.mktemp("alike"), planted.all_alike)


@pytest.fixture(scope="module")
def opposite(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return with_claims(tmp_path_factory.mktemp("opposite"), planted.the_opposite)


def pass_at_k(experiment: Experiment, objective: str, k: int, trained_k: int) -> float:
    """Mean over seeds and problems, in percent, from the scores."""
    values = []
    for cell in experiment.cells_of("main"):
        if (cell.objective, cell.k) != (objective, trained_k):
            continue
        for benchmark in experiment.benchmarks_of("standard"):
            frame = read_frame(experiment.scores(cell.name, "standard", 0), SCORES, benchmark)
            for right in frame.groupby("problem_id")["correct"].sum():
                wrong = planted.SAMPLES - int(right)
                values.append(1 - math.comb(wrong, k) / math.comb(planted.SAMPLES, k))
    return 100 * sum(values) / len(values)


def sentence_of(experiment: Experiment) -> str:
    found = headline(experiment)
    assert found is not None
    return found.sentence


def test_the_headline_has_the_differences_of_the_scores_and_the_claims_intervals(
    as_claimed: Experiment,
) -> None:
    sentence = sentence_of(as_claimed)
    claimed = read_csv(table_path(as_claimed, "claim_comparisons")).to_dict("records")
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
                if row["comparison"] == f"RSPO k={k} - {label.format(k=k)}"
                and (row["k"], row["benchmark"]) == (k, "pooled")
            )
            width = 50 * (float(row["high"]) - float(row["low"]))
            assert float(half) == pytest.approx(width, abs=0.6 * 10 ** -places(half))


def places(number: str) -> int:
    return len(number.partition(".")[2])


def test_a_headline_that_is_not_resolved_says_so(alike: Experiment) -> None:
    sentence = sentence_of(alike)
    assert "above" not in sentence
    assert "below" not in sentence
    assert "RSPO's difference to the baseline, " in sentence
    assert "; RSPO's difference to policy gradient, " in sentence
    assert sentence.count("is not resolved") == 2
    assert len(re.findall(VALUE, sentence)) == 6


def test_a_headline_against_the_paper_says_so(opposite: Experiment) -> None:
    sentence = sentence_of(opposite)
    assert "below the baseline by " in sentence
    assert "above the baseline" not in sentence
    assert MINUS not in re.findall(r"below .* by .*? and below", sentence + " and below")[0]


def test_the_headline_is_resolved_by_p_values_adjusted_for_all_that_it_has(
    as_claimed: Experiment,
) -> None:
    """With p = .02 for each of six differences, Holm's method leaves all of them open."""
    path = FIGURES["fig_difference"].step(as_claimed).outputs[2]
    table = table_path(as_claimed, "claim_comparisons")
    before, numbers = read_csv(table), path.read_text()
    try:
        write_csv(table, before.assign(p="0.02"))
        assert "above" in sentence_of(as_claimed)
        adopt(table)
        draw(as_claimed, "fig_difference", force=True)
        assert read_csv(path)["p_adjusted"].astype(float).to_list() == pytest.approx([0.12] * 6)
        assert sentence_of(as_claimed).count("is not resolved") == 2
    finally:
        write_csv(table, before)
        path.write_text(numbers)
        adopt(table)
        adopt(path)


def test_one_seed_is_about_policies_not_methods(tmp_path: Path) -> None:
    found = headline(with_claims(tmp_path, planted.as_claimed, seeds=1))
    assert found is not None
    assert "one training seed: about these policies, not the methods" in found.remarks
    assert "95 % interval over problems;" in found.remarks


@pytest.mark.parametrize("objectives", [("rspo_pass_at_k",), ("rspo_pass_at_k", "grpo")])
def test_a_grid_without_baseline_and_policy_gradient_has_no_headline(
    tmp_path: Path, objectives: tuple[str, ...]
) -> None:
    cells = [(name, 4 if "rspo" in name else 1, 16) for name in objectives]
    experiment = with_claims(tmp_path, lambda _: (0.6, 0.4), grid_of={"main": cells})
    assert headline(experiment) is None


def why(experiment: Experiment, name: str) -> Unresolved:
    return next(one for one in unresolved(experiment) if one.name == name)


def test_every_claim_that_is_not_supported_is_explained(opposite: Experiment) -> None:
    rows = read_csv(table_path(opposite, "claims")).to_dict("records")
    found = unresolved(opposite)
    assert {one.name for one in found} == {
        row["claim"] for row in rows if row["verdict"] != "supported"
    }
    verdicts = [one.verdict for one in found]
    assert verdicts == sorted(verdicts)  # contradicted, then not resolved
    assert "contradicted" in verdicts
    comparisons = read_csv(table_path(opposite, "claim_comparisons"))
    for one in found:
        own = comparisons[(comparisons["claim"] == one.name) & (comparisons["decides"] == "yes")]
        assert len(one.reasons) == (own["outcome"] != "for").sum()
        against = (own["outcome"] == "against").sum()
        assert sum("significantly the opposite" in reason for reason in one.reasons) == against


def test_an_open_comparison_has_its_interval_width_and_seeds(alike: Experiment) -> None:
    """Each sentence against the row of claim_comparisons.csv that it is about."""
    comparisons = read_csv(table_path(alike, "claim_comparisons"))
    own = comparisons[(comparisons["claim"] == "C3b") & (comparisons["outcome"] == "open")]
    numbers = {
        f"{row['comparison']}, Pass@{row['k']}, all problems": row for row in own.to_dict("records")
    }
    reasons = why(alike, "C3b").reasons
    assert len(reasons) == len(numbers)
    for reason in reasons:
        row = numbers[reason.partition(":")[0]]
        low, high = 100 * float(row["low"]), 100 * float(row["high"])
        assert f"the 95 % interval, {interval(low, high)}, " in reason
        assert (" includes 0 and is " in reason) == (low <= 0 <= high)
        estimate = Estimate(
            100 * float(row["estimate"]),
            math.nan,
            100 * float(row["error_seeds"]),
            100 * float(row["error"]),
            float(row["degrees"]),
        )
        needed = seeds_needed(estimate, abs(estimate.value), 2, len(own))
        about = re.findall(r"About (\d+) seeds would resolve it", reason)
        assert bool(about) == (needed is not None)
        if needed is not None:
            assert needed <= int(about[0]) < 1.1 * needed + 1
        claimed = "as claimed." if estimate.value > 0 else "against the claim."
        assert needed is None or reason.endswith(claimed)


def test_entropy_of_one_seed_has_no_error(tmp_path: Path) -> None:
    experiment = with_claims(tmp_path, planted.as_claimed, seeds=1)
    reasons = why(experiment, "C4").reasons
    assert all("without an error: each run gives one value" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        (0.03, "includes 3, an end of the margin of ±\u00a03, and is 3.0 wide. "),
        (0.05, "is within the margin of ±\u00a05 and is 3.0 wide, but p = 0.03 becomes 0.06 with"),
        (0.004, "is outside the margin of ±\u00a00.4 and is 3.0 wide, but p = 0.03 becomes 0.06"),
    ],
)
def test_an_equivalence_that_is_open_names_the_margin(
    alike: Experiment, margin: float, said: str
) -> None:
    comparisons, verdicts = (table_path(alike, name) for name in ("claim_comparisons", "claims"))
    before = [read_csv(path) for path in (comparisons, verdicts)]
    numbers = {"estimate": 0.02, "low": 0.005, "high": 0.035, "error_seeds": 0.005, "error": 0.007}
    numbers |= {"margin": margin, "p": 0.03, "p_adjusted": 0.06, "outcome": "open"}
    of_c9 = before[0]["claim"] == "C9"
    try:
        changed = before[0].assign(**{column: str(value) for column, value in numbers.items()})
        write_csv(comparisons, before[0].where(~of_c9, changed))
        write_csv(verdicts, before[1].assign(verdict="not resolved at this size"))
        reasons = why(alike, "C9").reasons
        assert reasons
        assert all(said in reason for reason in reasons)
    finally:
        write_csv(comparisons, before[0])
        write_csv(verdicts, before[1])


def test_a_claims_weakest_comparison_is_that_of_the_table(
    as_claimed: Experiment, opposite: Experiment
) -> None:
    for experiment in (as_claimed, opposite):
        rows = read_csv(table_path(experiment, "claims")).set_index("claim")
        for claim in claims(experiment).claims:
            label = rows.loc[claim.name, "comparison"].partition(",")[0]
            assert claim.weakest.startswith(label), claim.name


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (3.7560, 1.118, "3.8"),
        (3.7560, 0.41, "3.8"),
        (3.7560, 0.299, "3.76"),
        (3.7560, 0.21, "3.76"),
        (11.35, 3.12, "11"),
        (1234.0, 57.0, "1230"),
        (-0.04, 1.9, "0.0"),
        (-0.00432, 0.0017, f"{MINUS}0.0043"),
    ],
)
def test_a_number_has_the_digits_that_its_error_allows(
    value: float, error: float, shown: str
) -> None:
    assert rounded(value, error) == shown


def test_no_error_is_written_with_more_than_two_digits() -> None:
    for exponent in range(-6, 4):
        for leading in (1.0, 1.04, 2.04, 2.96, 3.0, 4.96, 9.4, 9.96):
            error = leading * 10.0**exponent
            in_last_place = round(error * 10.0 ** decimals(error))
            assert 1 <= in_last_place <= 30, error
    assert plus_minus(3.7560, 2.6378, 4.8742) == "+3.8\u00a0±\u00a01.1"
