"""Exact expectations and a user's own objective, against enumeration of every outcome."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.files import fingerprint
from rspo.figures import exact, figures_of, style
from rspo.objectives import OBJECTIVES, KRule, Objective, response_weights
from rspo.pipeline import tasks
from tests.support.planted import experiment_in
from tests.support.tasks import task_of

Floats = NDArray[np.float64]


@pytest.mark.parametrize(("k", "n"), [(2, 4), (4, 8), (1, 4)])
def test_groups_of_the_baseline_are_independent(k: int, n: int) -> None:
    """One group of k has the numbers of all n responses, by enumeration of all outcomes."""
    rewards = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    weights = response_weights(rewards, "hitchhiking", k)
    form = exact.expectations("hitchhiking", k, n, [0.02, 0.3, 0.9])
    for place, p in enumerate((0.02, 0.3, 0.9)):
        chance = np.prod(np.where(rewards == 1, p, 1 - p), axis=1)
        gradients = (weights * (rewards - p)).sum(axis=1)  # d log pi / d logit is R - p
        mean = chance @ gradients
        assert p * (1 - p) * form.slope[place] == pytest.approx(mean)
        assert form.variance[place] == pytest.approx(chance @ gradients**2 - mean**2)
        for total, kind in ((form.correct, rewards), (form.wrong, 1 - rewards)):
            expected = chance @ (weights * kind).sum(axis=1)
            assert total[place] == pytest.approx(expected, abs=1e-12)


def test_objectives_without_a_line_have_the_numbers_of_the_line_that_shows_them() -> None:
    numbers = exact.table().groupby("objective").agg(list).drop(columns="line")
    for objective, other in exact.EQUAL_ON_BINARY.items():
        assert numbers.loc[objective].equals(numbers.loc[other])


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
    commands = (*suites, "curves", "claims")
    found = {
        step: task_of(experiment, step, suites.get(step, "")).settings_hash for step in commands
    }
    found |= {c: tasks.train(experiment, c).settings_hash for c in experiment.cells}
    every = figures_of(experiment)
    return found | {f: fingerprint(every[f].settings(experiment)) for f in figures_of(experiment)}


def test_a_new_objective_remakes_the_figure_of_all_objectives(
    tmp_path: Path, register: Callable[..., None]
) -> None:
    experiment = experiment_in(tmp_path)
    before = settings(experiment)
    assert settings(experiment) == before
    register(top_two_mean, least_n=2)
    after = settings(experiment)
    assert {name for name in before if before[name] != after[name]} == {exact.FIGURE.name}


def test_the_figure_has_a_new_objective_that_weighs_equal_rewards_equally(
    register: Callable[..., None],
) -> None:
    before = exact.table()
    register(first_best)  # cannot be exact, so it has no numbers
    register(top_two_mean, least_n=8)  # the panels over n begin at 4
    table = exact.table()
    rows = table[table["objective"] == "top_two_mean"]
    assert len(rows) > 0
    assert rows["n"].min() >= 8
    others = table[table["objective"] != "top_two_mean"].reset_index(drop=True)
    assert others.equals(before)
    with style.applied():
        picture = exact.draw(table)
        picture.draw_without_rendering()
    legend = [text.get_text() for text in picture.legends[0].get_texts()]
    assert "top two mean" in legend
    assert "first best" not in legend
    small_print = " ".join(picture.get_supxlabel().split())
    assert "not shown: first best (equal rewards get different weights" in small_print
