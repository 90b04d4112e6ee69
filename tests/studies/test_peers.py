"""The comparison of the published objectives: its table, its page and its figure."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.core.tables import GRADIENTS, read_csv, read_frame, write_csv
from rspo.datasets.prepare import prepare
from rspo.estimators import pass_at_k
from rspo.evaluation.gradients import write_gradients
from rspo.evaluation.read_outcomes import policy_scores
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.evaluation.statistics import holm
from rspo.figures import draw
from rspo.objectives import compared
from rspo.status.policies import statuses
from rspo.studies import STUDIES
from rspo.studies.peers.page import page
from rspo.studies.peers.table import table as table_of
from rspo.training.train import train
from tests.support import registries, tiny_world
from tests.support.figure_inputs import experiment_in
from tests.support.peers_table import peers_table
from tests.support.steps import step_of

MINE = """
from rspo import objectives

def third_of_rewards(rewards, k):
    return rewards / 3

objectives.register(objectives.Objective("mine", third_of_rewards, objectives.KRule.NONE))
"""
VALIDATED = {"validation": {"every": 6, "problems": 5, "samples": 4}}
VARIANTS = {
    "lr-same": {"training": VALIDATED},
    "lr-triple": {"training": VALIDATED, "models": {"small": {"learning_rate": 6e-4}}},
    "epochs-2": {"training": {"epochs": 2}},
    "steps-12": {"training": {"steps": 12}},
}
RATES, EPOCHS = ["lr-same", "lr-triple"], ["default", "epochs-2", "steps-12"]
CELLS: list[dict[str, Any]] = [
    {"model": "small", "objective": "rspo_pass_at_k", "k": 2, "n": 4, "variant": RATES},
    {"model": "small", "objective": "policy_gradient", "n": 4, "variant": "lr-same"},
    {"model": "small", "objective": "mine", "n": 4, "variant": RATES},
    {"model": "small", "objective": "rspo_pass_at_k", "k": 2, "n": 8, "variant": EPOCHS},
]
OVERRIDES: dict[str, Any] = {
    "variants": VARIANTS,
    "studies": {"peers": {"cells": CELLS}},
    "extensions": ["mine.py"],
    "gradients": {"prompts": 3, "responses": 16, "n": 4, "k": [2], "groupings": 1},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    """A small study with an objective of a user, made by `rspo study`."""
    root = tmp_path_factory.mktemp("study")
    (root / "mine.py").write_text(MINE)
    with registries.restored(), contextlib.chdir(root):
        experiment = tiny_world.load_prepared(Path(), **OVERRIDES)
        prepare(experiment, "validation")
        for benchmark in experiment.benchmarks_of("standard"):
            prepare(experiment, benchmark)
        for cell in experiment.cells_of("peers"):
            train(experiment, cell.name)
        for policy in experiment.policies_of("peers"):
            sample_suite(experiment, policy, "standard")
            score(experiment, policy, "standard")
        write_gradients(experiment, "small--base", "peers")
        assert main(["study", "peers", *tiny_world.options(**OVERRIDES), "--force"]) == 0
        yield experiment


@pytest.fixture
def rows(made: Experiment) -> pd.DataFrame:
    return pd.read_csv(STUDIES["peers"].step(made).outputs[0])


def mean_pass_at_k(experiment: Experiment, cell: str, k: int) -> float:
    correct = [
        policy_scores(experiment, cell, name).correct
        for name in experiment.benchmarks_of("standard")
    ]
    return float(np.mean(pass_at_k(8, np.concatenate(correct).sum(axis=1), int(k))))


def test_the_table_agrees_with_the_scores(made: Experiment, rows: pd.DataFrame) -> None:
    rows = rows[(rows["part"] == "objectives") & (rows["against"] == "rspo")]
    assert set(rows["objective"]) == {"rspo_pass_at_k", "policy_gradient", "mine"}
    for _, row in rows.iterrows():
        own = mean_pass_at_k(made, row["cells"], row["k"])
        assert row["pass_at_k"] == pytest.approx(own)
        if row["objective"] != "rspo_pass_at_k":
            (rspo,) = rows[rows["difference"].isna() & (rows["k"] == row["k"])]["cells"]
            expected = own - mean_pass_at_k(made, rspo, row["k"])
            assert row["difference"] == pytest.approx(expected)


def test_the_comparison_uses_the_variant_that_is_best_in_validation(
    made: Experiment, rows: pd.DataFrame
) -> None:
    for objective in ("rspo_pass_at_k", "mine"):
        scores = {
            cell.name: read_json_lines(made.training_log(cell.name))[-1]["validation"]["pass_at_2"]
            for cell in made.cells_of("peers")
            if (cell.objective, cell.n) == (objective, 4)
        }
        assert len(scores) == 2
        row = rows[(rows["part"] == "objectives") & (rows["objective"] == objective)].iloc[0]
        assert scores[row["cells"]] == max(scores.values()) == row["validation"]


def test_several_epochs_are_compared_with_one_and_with_as_many_updates(
    made: Experiment, rows: pd.DataFrame
) -> None:
    epochs = rows[rows["part"] == "epochs"]
    several = epochs[epochs["epochs"] == 2]
    assert {*several["against"]} == {"base", "one pass", "as many updates"}
    assert {*epochs[epochs["epochs"] == 1]["against"]} == {"base"}
    others = {
        "base": "small--base",
        "one pass": "small--rspo-pass--k2--n8--s0",
        "as many updates": "small--rspo-pass--k2--n8--steps-12--s0",
    }
    for _, row in several.iterrows():
        own, other = (
            mean_pass_at_k(made, policy, row["k"])
            for policy in (row["cells"], others[row["against"]])
        )
        assert row["difference"] == pytest.approx(own - other)


def test_p_values_are_adjusted_over_their_family(rows: pd.DataFrame) -> None:
    tested = rows[rows["family"].notna()]
    assert (rows["p"].notna() == rows["family"].notna()).all()
    for _, family in tested.groupby("family"):
        assert [*family["p_adjusted"]] == pytest.approx([*holm(family["p"])])
        assert {*family["tests"]} == {len(family)}


def test_objectives_with_the_weights_of_a_trained_one_are_named(rows: pd.DataFrame) -> None:
    left_out = rows[rows["part"] == "left out"].set_index("objective")["same_as"]
    assert left_out["rspo_max_at_k"] == left_out["rspo_max_at_k_ranked"] == "rspo_pass_at_k"
    assert left_out["rspo_max_at_k_plug_in"] == "policy_gradient"
    assert left_out[["grpo", "maxrl", "hitchhiking"]].isna().all()


def test_gradients_of_a_study_leave_those_of_the_compared_objectives_as_they_are(
    made: Experiment,
) -> None:
    measured = read_frame(made.gradients("small--base", "peers"), GRADIENTS)
    assert {*measured["objective"]} == {"rspo_pass_at_k", "policy_gradient", "mine"}
    assert not made.gradients("small--base").exists()
    settings = step_of(made, "gradients").settings
    assert settings["objectives"] == compared()
    assert settings["gradients"]["k"] == [2]


def test_an_objective_of_a_user_is_on_the_page_and_in_the_figure(made: Experiment) -> None:
    draw(made, "fig_peers")
    assert "| `mine` |" in STUDIES["peers"].step(made).outputs[1].read_text()
    figure = read_csv(made.reports / "fig_peers.csv")
    assert {*figure["objective"]} == {"rspo_pass_at_k", "policy_gradient", "mine", "base"}


def test_the_cells_of_a_finished_study_count_as_trained(made: Experiment) -> None:
    policies = made.policies_of("peers")
    states = [status.state for status in statuses(made, dict.fromkeys(policies, ()))]
    assert states == ["trained"] * len(policies)


def test_a_study_of_other_settings_is_not_replaced(made: Experiment) -> None:
    table, _ = STUDIES["peers"].step(made).outputs
    before = table.read_bytes()
    evaluation = made.config.evaluation.model_copy(update={"k": [1, 2]})
    config = made.config.model_copy(update={"evaluation": evaluation})
    with pytest.raises(InputError, match=r"was made with other settings \(k: \[1, 2, 4\] -> \[1,"):
        STUDIES["peers"].write(replace(made, config=config))
    assert table.read_bytes() == before


def test_a_choice_without_validation_is_one_line(made: Experiment) -> None:
    path = made.training_log("small--mine--k1--n4--lr-triple--s0")
    log = read_json_lines(path)
    write_json_lines(path, [{**row, "validation": {}} for row in log])
    try:
        with pytest.raises(InputError, match=r"lr-triple.*no validation with Pass@2"):
            table_of(made, list(STUDIES["peers"].columns))
    finally:
        write_json_lines(path, log)


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    """Plausible numbers for the study of the config."""
    return peers_table(experiment_in(tmp_path))


def test_the_page_follows_from_the_csv(table: pd.DataFrame, tmp_path: Path) -> None:
    write_csv(tmp_path / "peers.csv", table)
    assert page(read_csv(tmp_path / "peers.csv")) == page(table)


def statements(table: pd.DataFrame) -> dict[str, list[str]]:
    """The bullet points of each section of the page, by the section's title."""
    return {
        part.partition("\n")[0]: [line for line in part.splitlines() if line.startswith("- ")]
        for part in page(table).split("\n## ")
    }


@pytest.mark.parametrize(
    ("difference", "p_adjusted", "section", "statement"),
    [
        (-0.031, 0.01, "What RSPO does better", "Pass@8: RSPO is significantly above"),
        (0.031, 0.01, "What RSPO does not do better", "Pass@8: RSPO is significantly below"),
        (0.031, 0.2, "What RSPO does not do better", "Pass@8: RSPO is not distinguishable"),
    ],
)
def test_statements_about_pass_at_k_follow_from_the_table(
    table: pd.DataFrame, difference: float, p_adjusted: float, section: str, statement: str
) -> None:
    chosen = (table["objective"] == "grpo") & (table["k"] == 8) & (table["against"] == "rspo")
    table.loc[chosen, ["difference", "p_adjusted"]] = difference, p_adjusted
    lines = {
        (title, line[2:].partition("`")[0].startswith(statement))
        for title, bullets in statements(table).items()
        for line in bullets
        if "Pass@8: RSPO" in line and "`grpo`" in line
    }
    assert lines == {(section, True)}


ABOVE, BELOW, UNCLEAR = (0.05, 0.001), (-0.05, 0.001), (-0.05, 0.3)


@pytest.mark.parametrize(
    ("one", "four", "fresh", "words"),
    [
        (ABOVE, UNCLEAR, ABOVE, "Not reproduced"),
        (BELOW, BELOW, ABOVE, "off-policy updates are not the only reason"),
        (ABOVE, BELOW, BELOW, "explains it, without off-policy updates"),
        (ABOVE, BELOW, ABOVE, "does not explain it, off-policy updates may"),
        (ABOVE, BELOW, None, "The table does not tell"),
    ],
)
def test_the_verdict_on_the_published_negative_result_follows_from_the_table(
    table: pd.DataFrame,
    one: tuple[float, float],
    four: tuple[float, float],
    fresh: tuple[float, float] | None,
    words: str,
) -> None:
    """With one pass, with four, and with four times as many steps."""
    for epochs, steps, outcome in (
        (1, 150, one),
        (2, 150, UNCLEAR),
        (4, 150, four),
        (1, 600, fresh),
    ):
        chosen = (table["part"] == "epochs") & (table["epochs"] == epochs)
        chosen &= table["steps"] == steps
        if outcome is None:
            table = table[~chosen]
        else:
            table.loc[chosen, ["difference", "p_adjusted"]] = outcome
    verdict = statements(table)["Several passes over the responses of a step"][0]
    assert words in verdict
    assert verdict.startswith("- Seen in") == (four == BELOW)
    assert "The published runs differ in model" in verdict


def test_that_fresh_responses_are_not_below_the_base_model_explains_nothing_alone(
    table: pd.DataFrame,
) -> None:
    """The difference of several passes and as many updates must be significant itself."""
    epochs = table[table["part"] == "epochs"]
    table.loc[epochs.index, ["difference", "p_adjusted"]] = ABOVE
    four = epochs["epochs"] == 4
    table.loc[epochs[four].index, ["difference", "p_adjusted"]] = BELOW
    title = "Several passes over the responses of a step"
    assert "and significantly above several passes" in statements(table)[title][0]
    directly = epochs[four & (epochs["against"] == "as many updates")]
    assert len(directly)
    table.loc[directly.index, ["difference", "p_adjusted"]] = UNCLEAR
    assert "The table does not tell whether the number of" in statements(table)[title][0]


def test_the_page_says_when_errors_lack_the_training_seeds(table: pd.DataFrame) -> None:
    assert "**One training seed**" in page(table)
    three = page(table.assign(seeds=table["seeds"].mask(table["seeds"] == 1, 3)))
    assert "One training seed" not in three
    assert "3 training seeds" in three


def test_chosen_rates_at_the_edge_of_the_grid_are_named(table: pd.DataFrame) -> None:
    assert "Some chosen rates are at the edge" in page(table)
    assert "No chosen rate is at the edge" in page(table.assign(rate_is="inner"))
