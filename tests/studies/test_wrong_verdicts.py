"""The study of wrong verdicts: the theory against enumeration, its table and its page."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.config.schema import DEFAULT_VARIANT
from rspo.core.errors import InputError
from rspo.core.tables import read_csv, write_csv
from rspo.evaluation.statistics import holm
from rspo.figures import draw
from rspo.studies import STUDIES
from rspo.studies.wrong_verdicts.page import page
from rspo.studies.wrong_verdicts.table import table as table_of
from rspo.studies.wrong_verdicts.theory import (
    accepted,
    expected_weight,
    false_accept_over_success,
    share_of_false_accepts,
)
from tests.studies.made import make, mean_pass_at_k
from tests.support import ROOT, tiny_world
from tests.support.figure_inputs import experiment_in
from tests.support.study_tables import study_table

N = 4
SUCCESSES = (Fraction(1, 10), Fraction(1, 2), Fraction(4, 5))  # of three prompts
RATE = Fraction(1, 5)
RIGHT, WRONG, FALSE_ACCEPT = "right", "wrong and rejected", "wrong and accepted"


def probability(kind: str, p: Fraction) -> Fraction:
    return {RIGHT: p, WRONG: (1 - p) * (1 - RATE), FALSE_ACCEPT: (1 - p) * RATE}[kind]


def score(kind: str, p: Fraction) -> Fraction:
    """d/dp of the log-probability of a response of this kind."""
    return 1 / p if kind == RIGHT else -1 / (1 - p)


def weight(kinds: Sequence[str], place: int, k: int) -> Fraction:
    """RSPO's: k/n times the fraction of (k-1)-subsets of the others that are all rejected."""
    if kinds[place] == WRONG:
        return Fraction(0)
    rejected = sum(kind == WRONG for kind in kinds)
    return Fraction(k, N) * Fraction(comb(rejected, k - 1), comb(N - 1, k - 1))


def enumerated(p: Fraction, k: int) -> tuple[dict[str, Fraction], dict[str, Fraction], Fraction]:
    """By kind of response: expected number, and expected sum of weights; expected gradient."""
    numbers: dict[str, Fraction] = defaultdict(Fraction)
    weights: dict[str, Fraction] = defaultdict(Fraction)
    gradient = Fraction(0)
    for kinds in product((RIGHT, WRONG, FALSE_ACCEPT), repeat=N):
        chance = Fraction(1)
        for kind in kinds:
            chance *= probability(kind, p)
        for place, kind in enumerate(kinds):
            numbers[kind] += chance
            weights[kind] += chance * weight(kinds, place, k)
            gradient += chance * weight(kinds, place, k) * score(kind, p)
    return numbers, weights, gradient


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("p", SUCCESSES)
def test_a_false_accept_has_the_expected_weight_of_a_true_success(p: Fraction, k: int) -> None:
    numbers, weights, _ = enumerated(p, k)
    expected = expected_weight("rspo_pass_at_k", k, N, accepted(float(p), float(RATE)))
    for kind in (RIGHT, FALSE_ACCEPT):
        assert expected == pytest.approx(float(weights[kind] / numbers[kind]))
    assert expected == pytest.approx(float(Fraction(k, N) * ((1 - p) * (1 - RATE)) ** (k - 1)))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("p", SUCCESSES)
def test_false_accepts_shorten_the_expected_gradient_and_do_not_turn_it(
    p: Fraction, k: int
) -> None:
    _, _, gradient = enumerated(p, k)
    of_pass_at_k = k * (1 - p) ** (k - 1)
    assert gradient == (1 - RATE) ** k * of_pass_at_k


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_share_of_false_accepts_follows_from_pass_at_k(k: int) -> None:
    totals: dict[str, Fraction] = defaultdict(Fraction)
    numbers: dict[str, Fraction] = defaultdict(Fraction)
    for p in SUCCESSES:
        of_prompt, weights, _ = enumerated(p, k)
        for kind in (RIGHT, FALSE_ACCEPT):
            totals[kind] += weights[kind]
            numbers[kind] += of_prompt[kind]

    def pass_at(k: int) -> float:
        return float(sum(1 - (1 - p) ** k for p in SUCCESSES) / len(SUCCESSES))

    share = totals[FALSE_ACCEPT] / (totals[FALSE_ACCEPT] + totals[RIGHT])
    found = share_of_false_accepts(pass_at(k), pass_at(k - 1), float(RATE))
    assert found == pytest.approx(float(share))
    ratio = (totals[FALSE_ACCEPT] / numbers[FALSE_ACCEPT]) / (totals[RIGHT] / numbers[RIGHT])
    found = false_accept_over_success(pass_at(1), pass_at(k), pass_at(k - 1))
    assert found == pytest.approx(float(ratio))
    assert k == 1 or found > 1  # policy gradient weighs both alike


VARIANTS = [DEFAULT_VARIANT, "control", "accepts-0.1", "rejects-0.1"]
CELLS: list[dict[str, Any]] = [
    {"model": "small", "objective": "policy_gradient", "n": 4, "variant": VARIANTS},
    {"model": "small", "objective": "rspo_pass_at_k", "k": 2, "n": 4, "variant": VARIANTS},
]
OVERRIDES: dict[str, Any] = {"studies": {"wrong_verdicts": {"cells": CELLS}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    """A small study with one rate, made by `rspo study`."""
    with contextlib.chdir(tmp_path_factory.mktemp("study")):
        yield make("wrong_verdicts", OVERRIDES)


def rows_of(made: Experiment, part: str) -> pd.DataFrame:
    rows = pd.read_csv(STUDIES["wrong_verdicts"].step(made).outputs[0], keep_default_na=False)
    return rows[rows["part"] == part]


def test_the_measured_numbers_agree_with_the_scores(made: Experiment) -> None:
    def mean(objective: str, variant: str, *ks: int) -> float:
        (cell,) = [
            cell.name
            for cell in made.cells_of("wrong_verdicts")
            if (cell.objective, cell.variant) == (objective, variant)
        ]
        return sum(mean_pass_at_k(made, cell, k) for k in ks) / len(ks)

    variants = {"false accepts": "accepts-0.1", "false rejects": "rejects-0.1"}
    variants |= {"control": "control"}
    for _, row in rows_of(made, "change").iterrows():
        k, variant = int(row["k"]), variants[row["errors"]]
        change = mean(row["objective"], variant, k) - mean(row["objective"], DEFAULT_VARIANT, k)
        assert float(row["estimate"]) == pytest.approx(change)

    def change_of(objective: str, errors: str) -> float:
        return mean(objective, variants[errors], 1, 2) - mean(objective, DEFAULT_VARIANT, 1, 2)

    against = rows_of(made, "against PG")
    assert {*against["objective"]} == {"rspo_pass_at_k"}
    for _, row in against.iterrows():
        rspo, neutral = (
            change_of(name, row["errors"]) for name in ("rspo_pass_at_k", "policy_gradient")
        )
        assert float(row["estimate"]) == pytest.approx(rspo - neutral)
    for _, row in rows_of(made, "accepts - rejects").iterrows():
        kinds = ("false accepts", "false rejects")
        accepts, rejects = (change_of(row["objective"], errors) for errors in kinds)
        assert float(row["estimate"]) == pytest.approx(accepts - rejects)


def test_the_share_of_false_accepts_is_that_of_the_scored_policies(made: Experiment) -> None:
    (row,) = [
        row
        for _, row in rows_of(made, "share").iterrows()
        if (row["objective"], row["policy"]) == ("rspo_pass_at_k", "base")
    ]
    first, second = (mean_pass_at_k(made, "small--base", k) for k in (1, 2))
    false = 0.1 * (1 - second)
    assert float(row["share"]) == pytest.approx(false / (second - first + false))


def test_p_values_are_adjusted_over_their_family(made: Experiment) -> None:
    table = pd.read_csv(STUDIES["wrong_verdicts"].step(made).outputs[0])
    sizes = {}
    for name, family in table[table["family"].notna()].groupby("family"):
        assert [*family["p_adjusted"]] == pytest.approx([*holm(family["p"])])
        assert {*family["tests"]} == {len(family)}
        sizes[name] = len(family)
    assert sizes == {
        "changes": 12,
        "against policy gradient": 3,
        "false accepts against false rejects": 2,
    }


def test_page_and_figure_follow_from_the_csv(made: Experiment) -> None:
    csv, text = STUDIES["wrong_verdicts"].step(made).outputs
    assert page(read_csv(csv)) == text.read_text()
    draw(made, "fig_wrong_verdicts")
    drawn = read_csv(made.reports / "fig_wrong_verdicts.csv")
    assert {*drawn["part"]} == {"change", "weight", "share"}


def test_the_default_cells_are_those_of_the_grid() -> None:
    experiment = Experiment.load("tiny", {}, root=ROOT)
    default = [c for c in experiment.cells_of("wrong_verdicts") if c.variant == DEFAULT_VARIANT]
    assert len(default) == 3
    assert {cell.name for cell in default} <= experiment.cells.keys()


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ({"rewards": {"false_accepts": 0.1, "false_rejects": 0.1}}, "takes one of them at a time"),
        ({"training": {"steps": 3}}, "variants.both has no false accepts or rejects"),
        (None, "needs cells of the variant default"),
    ],
)
def test_other_cells_are_one_line(
    tmp_path: Path, variant: dict[str, Any] | None, message: str
) -> None:
    names = ["accepts-0.1"] if variant is None else [DEFAULT_VARIANT, "both"]
    cells = [spec | {"variant": names} for spec in CELLS]
    more = {} if variant is None else {"variants": {"both": variant}}
    experiment = tiny_world.load(tmp_path, studies={"wrong_verdicts": {"cells": cells}}, **more)
    with pytest.raises(InputError, match=message):
        table_of(experiment, list(STUDIES["wrong_verdicts"].columns))


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Plausible numbers for the study of the config."""
    return study_table(experiment_in(tmp_path), "wrong_verdicts")


def section(table: pd.DataFrame, title: str) -> str:
    return page(table).split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("estimate", "p", "statement"),
    [
        (-0.05, 0.01, "more than policy gradient in 1 (RSPO k=8 at 5 %), significantly less in 0"),
        (0.05, 0.01, "more than policy gradient in 0, significantly less in 1 (RSPO k=8 at 5 %)"),
        (-0.05, 0.2, "more than policy gradient in 0, significantly less in 0"),
    ],
)
def test_the_comparison_with_policy_gradient_follows_from_the_table(
    table: pd.DataFrame, estimate: float, p: float, statement: str
) -> None:
    tested = (table["part"] == "against PG") & (table["errors"] == "false accepts")
    table.loc[tested, "p_adjusted"] = 1.0
    one = tested & (table["method"] == "RSPO k=8") & (table["rate"] == 0.05)
    table.loc[one, ["estimate", "p_adjusted"]] = estimate, p
    text = section(table, "Do false accepts hurt RSPO more than policy gradient?")
    assert f"Of 6 tests: the errors cost the method significantly {statement}" in text
    assert f"RSPO k=8 at 5 %: {'+' if estimate > 0 else '−'}5.0" in text
    assert "at 10 %, false accepts are expected to have 10 % (PG), 40 % (RSPO k=4)" in text


def test_the_costs_follow_from_the_table(table: pd.DataFrame) -> None:
    tested = (table["part"] == "change") & (table["method"] == "PG")
    tested &= table["errors"] == "false rejects"
    text = "False rejects, PG: no significant change."
    assert text in section(table, "What wrong verdicts cost")
    one = tested & (table["rate"] == 0.1) & (table["k"] == "4")
    table.loc[one, ["estimate", "p_adjusted"]] = -0.03, 0.01
    text = "False rejects, PG: significantly worse at 10 % (Pass@4)."
    assert text in section(table, "What wrong verdicts cost")


def test_the_control_is_not_counted_with_the_errors(table: pd.DataFrame) -> None:
    title = "Do false accepts hurt RSPO more than policy gradient?"
    control = (table["part"] == "against PG") & (table["errors"] == "control")
    table.loc[control, "p_adjusted"] = 0.5
    assert "0 of its 2 differences are significant" in section(table, title)
    one = control & (table["method"] == "RSPO k=8")
    table.loc[one, ["estimate", "low", "high", "p_adjusted"]] = 0.02, 0.01, 0.03, 0.001
    text = section(table, title)
    largest = "the largest is +2.0 (+1.0 to +3.0) points (RSPO k=8, Pass@1, 4, 8)"
    assert f"1 of its 2 differences are significant; {largest}" in text
    assert text.count("Of 6 tests") == 2


def test_which_errors_are_more_frequent_follows_from_the_table(table: pd.DataFrame) -> None:
    title, text = "False accepts or false rejects?", "so false accepts are more frequent"
    clean = (table["part"] == "level") & (table["errors"] == "none") & (table["k"] == "1")
    table.loc[clean, "estimate"] = 0.3
    assert text in section(table, title)
    table.loc[clean, "estimate"] = 0.95
    assert text not in section(table, title)


def test_the_page_of_a_table_is_that_of_its_csv(table: pd.DataFrame, tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", table)
    assert page(read_csv(tmp_path / "table.csv")) == page(table)
