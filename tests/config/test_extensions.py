"""Files of the user that register objectives, rewards, verifiers, figures and claims."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rspo.config.experiment import Experiment
from rspo.config.load import config_of
from rspo.config.registered import Reward, VerifiedResponses, Verifier, register
from rspo.core.errors import InputError
from rspo.pipeline import tasks
from rspo.rewards import verify
from rspo.rewards.configured import rewards_of
from tests.support import registries, tiny_world
from tests.support.tasks import task_of

OBJECTIVE = """
from rspo.objectives import KRule, Objective, register
register(Objective("first", lambda rewards, k: rewards, KRule.NONE))
"""
REWARD = """
from rspo.rewards import Reward, register
register(Reward("half", lambda responses: responses.correct / 2))
"""
VERIFIER = """
from rspo.rewards import Verifier, register
register(Verifier("last", lambda response, answers: response[-1:] in answers))
"""
CELL = {"model": "small", "objective": "rspo_max_at_k", "k": 2, "n": 4, "reward": "half"}
FIRST = {"model": "small", "objective": "first", "n": 4}
MAX_CELL = "small--rspo-max--k2--n4--half--s0"


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    with registries.restored():
        yield


def load(root: Path, *sources: str, **overrides: Any) -> Experiment:
    """The small experiment with extensions own0.py, own1.py, ..."""
    files = [f"own{number}.py" for number in range(len(sources))]
    for file, source in zip(files, sources, strict=True):
        (root / file).write_text(source)
    return tiny_world.load(root, extensions=files, **overrides)


def grid(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"main": {"suite": "standard", "seeds": 1, "cells": list(cells)}}


def test_tasks_name_the_files_of_the_functions_that_they_call(tmp_path: Path) -> None:
    settings = {"grid": grid(FIRST, CELL), "verifier": "last"}
    experiment = load(tmp_path, OBJECTIVE, REWARD, VERIFIER, **settings)
    objective, reward, verifier = (tmp_path.resolve() / f"own{number}.py" for number in range(3))
    assert tasks.train(experiment, "small--first--k1--n4--s0").own_code == (objective,)
    assert tasks.train(experiment, MAX_CELL).own_code == (reward,)
    assert tasks.score(experiment, "small--base", "standard", 0).own_code == (verifier,)
    assert tasks.sample(experiment, "small--base", "standard", 0).own_code == ()


def test_a_config_can_name_what_its_extensions_register(tmp_path: Path) -> None:
    sources = OBJECTIVE, REWARD, VERIFIER
    settings = {"grid": grid(FIRST, CELL), "verifier": "last"}
    experiment = load(tmp_path, *sources, **settings, evaluation={"reward": "half"})
    assert list(experiment.cells)[:2] == ["small--first--k1--n4--s0", MAX_CELL]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            OBJECTIVE.replace("first", "grpo"),
            "own0.py, line 3: objective 'grpo': 'grpo' exists already",
        ),
        (OBJECTIVE.replace("first", "First"), "line 3: objective 'First': allowed: lower-case"),
        (REWARD.replace("half", "a--b"), "line 3: reward 'a--b': allowed: lower-case"),
        (
            "from rspo.analysis import CLAIMS, register\nregister(CLAIMS['C1'])\n",
            "own0.py, line 2: claim 'C1' exists already",
        ),
        (
            REWARD.replace("lambda responses:", "lambda responses, k:"),
            r"line 3: reward 'half': it is called with \(responses\): missing a required",
        ),
    ],
)
def test_what_cannot_be_registered_is_refused_with_its_line(
    tmp_path: Path, source: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, source)


@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        (["own.py"], "config/tiny.yaml: extensions = 'own.py': no such file FILE.py; paths are"),
        (["notes.txt"], "extensions = 'notes.txt': no such file FILE.py; paths are"),
        (
            "own.py",
            r"config/tiny.yaml: extensions = 'own.py': expected a list of files, such as \[my_r",
        ),
    ],
)
def test_only_a_wrong_list_is_named(tmp_path: Path, extensions: Any, message: str) -> None:
    """Not the names that no extension registered."""
    (tmp_path / "notes.txt").write_text("x = 1\n")
    with pytest.raises(InputError, match=message) as error:
        tiny_world.load(tmp_path, extensions=extensions, grid=grid(FIRST))
    assert "\n" not in str(error.value)


def settings_of(experiment: Experiment) -> dict[str, str]:
    names = {"sample": "standard", "score": "standard", "curves": "", "claims": ""}
    found = {step: task_of(experiment, step, names[step]).settings_hash for step in names}
    found |= {c: tasks.train(experiment, c).settings_hash for c in experiment.cells}
    return found


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("", "# a comment\n", set()),
        ("KRule.NONE", "KRule.NONE, version=2", {"small--first--k1--n4--s0"}),
        ("/ 2)", "/ 2, version=2)", {MAX_CELL, "score"}),
        ("in answers)", "in answers, version=2)", {"score"}),
    ],
)
def test_a_new_version_remakes_what_depends_on_it_and_any_change_the_claims(
    tmp_path: Path, old: str, new: str, changed: set[str]
) -> None:
    source, config = (
        OBJECTIVE + REWARD + VERIFIER,
        {
            "grid": grid(FIRST, CELL),
            "verifier": "last",
            "evaluation": {"reward": "half"},
        },
    )
    found = []
    for text in (source, source.replace(old, new, 1) if old else source + new):
        with registries.restored():
            found.append(settings_of(load(tmp_path, text, **config)))
    before, after = found
    assert {name for name in before if before[name] != after[name]} == changed | {"claims"}


def test_a_reward_gets_texts_lengths_and_verdicts_and_returns_a_number_for_each(
    tmp_path: Path,
) -> None:
    config = tiny_world.load(tmp_path).config
    correct = np.array([True, False])
    for number, wrong in enumerate(([1.0], [np.nan, 1.0], 1.0)):
        register(Reward(f"bad{number}", lambda responses, wrong=wrong: wrong))
        with pytest.raises(InputError, match=r"reward 'bad.' returned .*expected 2 finite numbers"):
            rewards_of(config, f"bad{number}", correct, [3, 4], lambda: ["a", "b"])
    seen = []
    register(Reward("seen", lambda responses: seen.append(responses) or responses.tokens - 3))
    for _ in range(2):
        assert rewards_of(config, "seen", correct, [3, 4], lambda: ["a", "b"]).tolist() == [0, 1]
    responses, first, again = seen  # the first call is repeated with fewer responses
    assert (first.texts, again.texts) == (["a"], ["a", "b"])
    assert responses.texts == ["a", "b"]
    assert responses.tokens.tolist() == [3, 4]
    assert responses.correct.tolist() == [True, False]
    assert responses.max_tokens == 18


def test_a_function_that_does_not_tell_its_arguments_can_be_registered() -> None:
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(max)
    register(Reward("largest", max))


def test_a_reward_that_depends_on_the_other_responses_is_refused(tmp_path: Path) -> None:
    config = tiny_world.load(tmp_path).config
    register(Reward("centred", lambda responses: responses.correct - responses.correct.mean()))
    with pytest.raises(InputError, match="'centred' gave the first 1 of 2 responses other values"):
        rewards_of(config, "centred", np.array([True, False]), [3, 4], lambda: ["a", "b"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_reward_may_have_the_rounding_errors_of_its_precision(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    """A model's reward near 0 is the difference of large numbers, which depend on the batch."""

    def scored(responses: VerifiedResponses) -> Any:
        large = torch.tensor([2.0, 1.0, -2.0, 1.0])[: len(responses.correct)]
        rounding = torch.finfo(dtype).eps * len(large)
        return torch.where(large == 1, rounding, large).to(dtype)

    config = tiny_world.load(tmp_path).config
    name = f"scored_{dtype.itemsize}"
    register(Reward(name, scored))
    found = rewards_of(config, name, np.ones(4, dtype=bool), [3] * 4, lambda: [*"abcd"])
    assert found.dtype == np.float64
    assert found[[0, 2]].tolist() == [2, -2]


def test_an_extension_that_ends_the_program_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\n\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"^script\.py, line 3: it ends the"):
        config_of({"extensions": ["script.py"]}, tmp_path, "config")


RECORD = """
from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path

@dataclass
class Record:
    name: str

with Path("runs.txt").open("a") as file:
    file.write(Record(name="run").name)
"""


def test_an_extension_is_a_module_that_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one with the same name of the file, in another folder, is not the same."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "own"
    root.mkdir()
    for folder in (tmp_path, root):
        for _ in range(2):
            load(folder, RECORD)
    assert (tmp_path / "runs.txt").read_text() == "runrun"


def test_an_extension_with_a_bug_runs_again_when_it_is_repaired(tmp_path: Path) -> None:
    (tmp_path / "buggy.py").write_text("no_such_name")
    with pytest.raises(InputError, match=r"^buggy\.py, line 1: NameError: name 'no_such_name' is"):
        config_of({"extensions": ["buggy.py"]}, tmp_path, "config")
    (tmp_path / "buggy.py").write_text("a = 1\n\nb = (")
    with pytest.raises(InputError, match=r"^buggy\.py, line 3: SyntaxError: "):
        config_of({"extensions": ["buggy.py"]}, tmp_path, "config")
    (tmp_path / "buggy.py").write_text("raise ValueError('it runs')")
    with pytest.raises(InputError, match="it runs"):
        config_of({"extensions": ["buggy.py"]}, tmp_path, "config")


def test_a_verifier_of_the_user_decides() -> None:
    register(Verifier("last", lambda response, answers: response[-1:] in answers))
    responses, answers = ["it is 4", r"\boxed{4}", "5"], [["4", "four"]] * 3
    verdicts = verify(responses, answers, "last")
    assert [verdict.reason for verdict in verdicts] == ["correct", "incorrect", "incorrect"]
    assert {verdict.verifier for verdict in verdicts} == {"last"}


BY_POSITION = """
import numpy as np
from rspo.objectives import KRule, Objective, register
def weights(rewards, k):
    return rewards * np.arange(rewards.shape[-1])
register(Objective("first", weights, KRule.NONE, ordered={ordered}))
"""


def test_an_own_objective_that_depends_on_the_order_must_say_so(tmp_path: Path) -> None:
    message = r"cells\.0.*weights must not depend on the order .* got .* for \[0, 0, 0, 1\]"
    with pytest.raises(InputError, match=message) as error, registries.restored():
        load(tmp_path, BY_POSITION.format(ordered=False), grid=grid(FIRST))
    assert "\n" not in str(error.value)
    load(tmp_path, BY_POSITION.format(ordered=True), grid=grid(FIRST))
