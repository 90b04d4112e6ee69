"""What a reader of the report's first sections learns, against other computations."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rspo.analysis.write import write_claims
from rspo.config.experiment import Experiment
from rspo.core.tables import SCORES, read_csv, read_frame
from rspo.figures import draw
from rspo.report.page import environment
from rspo.report.read import claims
from rspo.report.text import MINUS, one_line, plus_minus
from tests.support import planted

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


def sentences(experiment: Experiment) -> Any:
    """The macros of sentences.jinja."""
    return environment(experiment, html=False).get_template("sentences.jinja").module


def sentence_of(experiment: Experiment) -> str:
    return str(sentences(experiment).result())


def reasons_of(experiment: Experiment, name: str) -> list[str]:
    say = sentences(experiment)
    claim = next(one for one in say.claims if one["claim"] == name)
    return [one_line(say.why(claim, one)) for one in claim["unresolved"]]


def test_the_headline_has_the_differences_of_the_scores_and_the_claims_intervals(
    as_claimed: Experiment,
) -> None:
    sentence = sentence_of(as_claimed)
    claimed = read_csv(as_claimed.reports / "claim_comparisons.csv").to_dict("records")
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
    rows = read_csv(opposite.reports / "claims.csv").to_dict("records")
    found = [one for one in claims(opposite) if one["verdict"] != "supported"]
    assert [one["claim"] for one in found] == [
        row["claim"] for row in rows if row["verdict"] != "supported"
    ]
    assert "contradicted" in {one["verdict"] for one in found}
    comparisons = read_csv(opposite.reports / "claim_comparisons.csv")
    for one in found:
        name = one["claim"]
        own = comparisons[(comparisons["claim"] == name) & (comparisons["decides"] == "yes")]
        reasons = reasons_of(opposite, name)
        assert len(reasons) == (own["outcome"] != "for").sum()
        against = ["significantly the opposite" in reason for reason in reasons]
        assert sum(against) == (own["outcome"] == "against").sum()
        assert against == sorted(against, reverse=True)  # they come first


def test_digits_are_those_of_the_unit() -> None:
    assert plus_minus(3.7560, 2.6, 5.0) == "+3.8\u00a0\u00b1\u00a01.2"
    assert plus_minus(-0.0043, -0.006, -0.0026, "entropy") == f"{MINUS}0.004\u00a0\u00b1\u00a00.002"
    assert plus_minus(-0.04, math.nan, math.nan, signed=False) == "0.0"
