"""The study of the choices that the paper leaves open: its cells, its table and its page."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
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
from rspo.studies.open_choices.page import page
from rspo.studies.open_choices.table import changed
from rspo.studies.open_choices.table import table as table_of
from tests.studies.made import make, mean_pass_at_k
from tests.support import ROOT, tiny_world
from tests.support.figure_inputs import experiment_in
from tests.support.study_tables import study_table

VARIANTS = [DEFAULT_VARIANT, "updates-1", "ppo-clip-none"]
CELLS: list[dict[str, Any]] = [
    {"model": "small", "objective": "policy_gradient", "n": 4, "variant": VARIANTS},
    {"model": "small", "objective": "rspo_pass_at_k", "k": 2, "n": 4, "variant": VARIANTS},
    {"model": "small", "objective": "hitchhiking", "k": 2, "n": 4, "variant": VARIANTS},
]
MATTER = "Choices that change these policies"  # with one seed
OVERRIDES: dict[str, Any] = {
    "seeds": 2,
    "studies": {"open_choices": {"cells": CELLS}},
    "variants": {"updates-1": {"training": {"mini_batch_prompts": 10}}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    """A small study with two choices, made by `rspo study`."""
    with contextlib.chdir(tmp_path_factory.mktemp("study")):
        yield make("open_choices", OVERRIDES)


def rows_of(made: Experiment, part: str) -> pd.DataFrame:
    rows = pd.read_csv(STUDIES["open_choices"].step(made).outputs[0])
    return rows[rows["part"] == part]


def test_every_variant_changes_exactly_one_setting_of_the_default() -> None:
    experiment = Experiment.load("tiny", {}, root=ROOT)
    config = experiment.config
    variants = {cell.variant for cell in experiment.cells_of("open_choices")} - {DEFAULT_VARIANT}
    assert len(variants) == 15
    default = flat(config.model_dump())
    for variant in variants:
        other = flat(config.of_variant(variant).model_dump())
        different = {key for key in default | other if default.get(key) != other.get(key)}
        assert different == {*changed(config, variant)}, variant
        assert len(different) == 1, variant


def flat(values: Any, above: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {above.removesuffix("."): values}
    return {k: v for name in values for k, v in flat(values[name], f"{above}{name}.").items()}


def test_the_default_cells_are_those_of_the_grid() -> None:
    experiment = Experiment.load("tiny", {}, root=ROOT)
    default = [c for c in experiment.cells_of("open_choices") if c.variant == DEFAULT_VARIANT]
    assert len(default) == 4
    assert {cell.name for cell in default} <= experiment.cells.keys()


def test_the_estimates_agree_with_the_scores(made: Experiment) -> None:
    def mean(objective: str, variant: str, *ks: int) -> float:
        cells = [
            cell.name
            for cell in made.cells_of("open_choices")
            if (cell.objective, cell.variant) == (objective, variant)
        ]
        assert len(cells) == OVERRIDES["seeds"]
        return fmean(mean_pass_at_k(made, cell, k) for cell in cells for k in ks)

    claims = rows_of(made, "claim").set_index(["variant", "claim"])["estimate"]
    changes = rows_of(made, "change").set_index(["variant", "claim"])["estimate"]
    for variant in VARIANTS:
        rspo = mean("rspo_pass_at_k", variant, 1, 2)
        above = rspo - mean("hitchhiking", variant, 1, 2)
        own = mean("policy_gradient", variant, 1) + mean("rspo_pass_at_k", variant, 2)
        other = mean("rspo_pass_at_k", variant, 1) + mean("policy_gradient", variant, 2)
        base = mean_pass_at_k(made, "small--base", 1) + mean_pass_at_k(made, "small--base", 2)
        assert claims[variant, "C1"] == pytest.approx(above)
        assert claims[variant, "C3"] == pytest.approx((own - other) / 2)
        assert claims[variant, "C10"] == pytest.approx((own - base) / 2)
        for claim in ("C1", "C3", "C10"):
            if variant != DEFAULT_VARIANT:
                expected = claims[variant, claim] - claims[DEFAULT_VARIANT, claim]
                assert changes[variant, claim] == pytest.approx(expected)


def test_choices_are_named_with_their_value_and_that_of_the_config(made: Experiment) -> None:
    rows = read_csv(STUDIES["open_choices"].step(made).outputs[0])
    named = {
        row["variant"]: (row["choice"], row["value"], row["default"]) for _, row in rows.iterrows()
    }
    assert named == {
        DEFAULT_VARIANT: ("", "", ""),
        "updates-1": ("updates per step", "1", "2"),
        "ppo-clip-none": ("PPO clip range", "none", "0.2"),
    }


def test_all_changes_are_one_family_of_tests_and_a_verdict_is_another(made: Experiment) -> None:
    changes = rows_of(made, "change")
    assert len(changes) == 6
    assert [*changes["p_adjusted"]] == pytest.approx([*holm(changes["p"])])
    for _, family in rows_of(made, "comparison").groupby(["variant", "claim"]):
        assert [*family["p_adjusted"]] == pytest.approx([*holm(family["p"])])
        assert {*family["tests"]} == {len(family)}


def test_page_and_figure_follow_from_the_csv(made: Experiment) -> None:
    csv, text = STUDIES["open_choices"].step(made).outputs
    assert page(read_csv(csv)) == text.read_text()
    assert "2 training seeds: intervals and p-values cover" in text.read_text()
    assert "\n## Choices that matter\n" in text.read_text()
    draw(made, "fig_open_choices")
    drawn = read_csv(made.reports / "fig_open_choices.csv")
    assert {*drawn["choice"]} == {"default", "updates per step: 1", "PPO clip range: none"}


def test_a_study_without_the_default_is_one_line(tmp_path: Path) -> None:
    cells = [spec | {"variant": "updates-1"} for spec in CELLS]
    experiment = tiny_world.load(tmp_path, studies={"open_choices": {"cells": cells}})
    with pytest.raises(InputError, match="needs cells of the variant default"):
        table_of(experiment, list(STUDIES["open_choices"].columns))


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Plausible numbers for the study of the config, in which no choice matters."""
    table = study_table(experiment_in(tmp_path), "open_choices")
    table.loc[table["part"] == "change", "p_adjusted"] = 0.5
    table.loc[table["part"] == "claim", "verdict"] = "supported"
    return table


def section(table: pd.DataFrame, title: str) -> str:
    return page(table).split(f"\n## {title}\n")[1].split("\n## ")[0]


def chosen(table: pd.DataFrame, part: str, variant: str) -> "pd.Series[bool]":
    return (table["part"] == part) & (table["variant"] == variant) & (table["claim"] == "C3")


def test_a_choice_matters_if_it_changes_an_estimate_significantly(table: pd.DataFrame) -> None:
    name = "temperature in training 0.8 instead of 1"
    assert "No choice changes" in section(table, MATTER)
    assert name in section(table, "Choices without a detectable effect")
    rows = chosen(table, "change", "temperature-0.8")
    table.loc[rows, ["estimate", "low", "high", "p_adjusted"]] = -0.123, -0.15, -0.1, 0.001
    text = section(table, MATTER)
    assert f"**{name}** changes the estimate of C3 by −12.3 (−15.0 to −10.0) points." in text
    assert name not in section(table, "Choices without a detectable effect")


def test_the_control_is_no_choice(table: pd.DataFrame) -> None:
    table.loc[table["variant"] == "control", "p_adjusted"] = 0.001
    assert "No choice changes" in section(table, MATTER)


def test_a_choice_must_change_more_than_the_control_may(table: pd.DataFrame) -> None:
    columns = ["estimate", "low", "high", "p_adjusted"]
    table.loc[chosen(table, "change", "control"), columns] = 0.03, -0.01, 0.07, 0.5
    table.loc[chosen(table, "change", "rate-triple"), columns] = -0.06, -0.07, -0.05, 0.001
    assert "No choice changes" in section(table, MATTER)
    table.loc[chosen(table, "change", "control"), columns] = 0.01, -0.03, 0.05, 0.5
    assert "C3 by −6.0" in section(table, MATTER)


def test_a_verdict_that_differs_under_the_control_too_is_no_effect(table: pd.DataFrame) -> None:
    rows = chosen(table, "change", "rate-triple")
    table.loc[rows, ["estimate", "low", "high", "p_adjusted"]] = 0.2, 0.15, 0.25, 0.001
    table.loc[chosen(table, "claim", "rate-triple"), "verdict"] = "contradicted"
    assert "(verdict: contradicted, was: supported)" in section(table, MATTER)
    table.loc[chosen(table, "claim", "control"), "verdict"] = "not resolved at this size"
    text = section(table, MATTER)
    assert "C3 by +20.0" in text
    assert "verdict" not in text


def test_a_verdict_that_differs_is_named_with_what_its_change_shows(table: pd.DataFrame) -> None:
    assert "42 of 42 verdicts are those of the default." in section(table, "Verdicts")
    table.loc[chosen(table, "claim", "rate-triple"), "verdict"] = "contradicted"
    text = section(table, "Verdicts")
    assert "41 of 42 verdicts" in text
    line = "C3 under learning rate 0.0006 instead of 0.0002 (verdict: contradicted, was: supported)"
    assert f"{line}; the change of its estimate is not significant" in text
    table.loc[chosen(table, "change", "rate-triple"), "p_adjusted"] = 0.01
    assert f"{line}; the change of its estimate is significant" in section(table, "Verdicts")


def test_verdicts_that_differ_under_the_control_too_are_named(table: pd.DataFrame) -> None:
    assert "Under the control" not in section(table, "Verdicts")
    table.loc[chosen(table, "claim", "control"), "verdict"] = "not resolved at this size"
    assert "Under the control, the verdict on C3 differs too" in section(table, "Verdicts")


def test_the_page_says_when_errors_lack_the_training_seeds(table: pd.DataFrame) -> None:
    assert "**One training seed**" in page(table)
    three = page(table.assign(seeds=table["seeds"].mask(table["seeds"] == 1, 3)))
    assert "One training seed" not in three
    assert "\n## Choices that matter\n" in three


def test_the_page_of_a_table_is_that_of_its_csv(table: pd.DataFrame, tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", table)
    assert page(read_csv(tmp_path / "table.csv")) == page(table)
