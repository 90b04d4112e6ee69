"""A user's own objective: what measures objectives is remade, and no figure shows wrong numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import fingerprint
from rspo.core.tables import GRADIENTS, read_table, write_table
from rspo.figures import FIGURES, available, figures_of, style
from rspo.figures.binary_groups import blocks_of
from rspo.objectives import OBJECTIVES, KRule, Objective, compared, response_weights
from tests.figures.test_explanations import chances, outcomes
from tests.support.figure_inputs import experiment_in, gradient_rows
from tests.support.steps import step_of

Floats = NDArray[np.float64]
EXACT = ["fig_weight_by_difficulty", "fig_estimator_variance"]


def top_two_mean(rewards: Floats, k: int) -> Floats:
    """k/n times the reward, of the responses that are no worse than the second best one."""
    n = rewards.shape[-1]
    second = np.sort(rewards, axis=-1)[..., -2:-1]
    return (k / n) * rewards * (rewards >= second)


def first_best(rewards: Floats, k: int) -> Floats:
    """Only the first of the best responses has a weight: equal rewards get different weights."""
    return rewards * (np.arange(rewards.shape[-1]) == rewards.argmax(axis=-1)[..., None])


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def add(function: Callable[[Floats, int], Floats], **options: int) -> None:
        objective = Objective(function.__name__, function, KRule.AT_MOST_N, **options)
        monkeypatch.setitem(OBJECTIVES, objective.name, objective)

    return add


def settings(experiment: Experiment) -> dict[str, str]:
    """The fingerprint of every step and figure."""
    suites = {"sample": "standard", "score": "standard"}
    commands = (*suites, "agreement", "curves", "claims", "gradients")
    found = {
        step: step_of(experiment, step, suites.get(step, "")).settings_hash for step in commands
    }
    found |= {c: steps.train(experiment, c).settings_hash for c in experiment.cells}
    every = figures_of(experiment)
    return found | {f: fingerprint(every[f].settings(experiment)) for f in available(experiment)}


def test_a_new_objective_remakes_the_gradients_and_the_figures_of_formulas(
    tmp_path: Path, register: Callable[..., None]
) -> None:
    experiment = experiment_in(tmp_path)
    before = settings(experiment)
    assert settings(experiment) == before
    register(top_two_mean, least_n=2)
    after = settings(experiment)
    assert {name for name in before if before[name] != after[name]} == {"gradients", *EXACT}


def test_gradients_without_the_new_objective_name_the_command_that_measures_it(
    tmp_path: Path, register: Callable[..., None]
) -> None:
    experiment, figure = experiment_in(tmp_path), FIGURES["fig_gradient_variance"]
    policies = figure.policies(experiment)
    for policy in policies:
        write_table(experiment.gradients(policy), GRADIENTS, gradient_rows(experiment, 0))
    register(top_two_mean, least_n=2)
    with pytest.raises(InputError, match=f"of top_two_mean; `rspo gradients {policies[0]}`"):
        figure.table(experiment, figure)
    for policy in policies:
        write_table(experiment.gradients(policy), GRADIENTS, gradient_rows(experiment, 0))
    assert "top_two_mean" in {
        *read_table(experiment.gradients(policies[0]), GRADIENTS)[-1].values()
    }
    table = figure.table(experiment, figure)
    assert sorted(table[table["objective"] == "top_two_mean"]["k"]) == [2, 2, 4, 4, 8, 8]
    assert "top two mean" in legend_of(drawn(table, figure.draw, experiment, figure))


def test_an_objective_is_not_measured_on_groups_that_it_is_not_defined_for(
    tmp_path: Path, register: Callable[..., None]
) -> None:
    register(top_two_mean, least_n=17)
    gradients = experiment_in(tmp_path).config.gradients
    assert gradients is not None
    assert gradients.n == 16
    assert "top_two_mean" not in dict(gradients.measured)


def drawn(table: object, draw: Callable[..., Picture], *context: object) -> Picture:
    with style.applied():
        picture = draw(table, *context)
        picture.draw_without_rendering()
    return picture


def legend_of(picture: Picture) -> list[str]:
    return [text.get_text() for text in picture.legends[0].get_texts()]


@pytest.mark.parametrize("name", EXACT)
def test_exact_figures_draw_a_new_objective_that_weighs_equal_rewards_equally(
    name: str, register: Callable[..., None]
) -> None:
    register(top_two_mean, least_n=8)  # the panels over n begin at 4
    table = FIGURES[name].table()
    rows = table[table["objective"] == "top_two_mean"]
    assert len(rows) > 0
    assert rows["n"].min() >= 8
    assert "top two mean" in legend_of(drawn(table, FIGURES[name].draw))


def test_the_drawn_weights_of_a_new_objective_are_the_means_over_all_outcomes(
    register: Callable[..., None],
) -> None:
    register(top_two_mean, least_n=2)
    table = FIGURES["fig_weight_by_difficulty"].table()
    rewards = outcomes(16)
    for row in table[table["objective"] == "top_two_mean"].to_dict("records")[::20]:
        weights = response_weights(rewards, "top_two_mean", row["k"])
        expected = float(chances(rewards, row["p"]) @ (weights * rewards).sum(axis=1))
        assert row["correct_weight"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_exact_figures_leave_out_an_objective_that_weighs_equal_rewards_differently(
    name: str, register: Callable[..., None]
) -> None:
    before = FIGURES[name].table()
    register(first_best)
    table = FIGURES[name].table()
    assert table.equals(before)
    picture = drawn(table, FIGURES[name].draw)
    assert "first best" not in legend_of(picture)
    small_print = " ".join(picture.get_supxlabel().split())
    assert "not shown: first best (equal rewards get different weights" in small_print


def test_exact_expectations_of_an_objective_that_weighs_equal_rewards_differently_are_refused(
    register: Callable[..., None],
) -> None:
    register(first_best)
    with pytest.raises(InputError, match="first_best gives equal rewards different weights"):
        blocks_of("first_best", 2, 4)


def test_lines_of_two_new_objectives_can_be_told_apart(register: Callable[..., None]) -> None:
    register(top_two_mean)
    register(first_best)
    others = [name for name in compared() if name not in style._FAMILIES]
    assert len({style._family(name) for name in others}) == len(others) == 5


def test_lines_of_all_objectives_can_be_told_apart() -> None:
    families = [style._family(name) for name in OBJECTIVES]
    assert len({(family.colours, family.line) for family in families}) == len(families) - 1
    assert style._family("rspo_max_at_k").markers != style._family("rspo_pass_at_k").markers
