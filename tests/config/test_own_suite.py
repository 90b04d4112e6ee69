"""The benchmark of docs/add/benchmark.md has a suite of its own and leaves `standard` as it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.step import Step
from tests.support import ROOT, tiny_world

_, _, _AFTER = (ROOT / "docs" / "add" / "benchmark.md").read_text().partition("```yaml\n")
ADDED: dict[str, Any] = yaml.safe_load(_AFTER.partition("```")[0])
OWN = ADDED["data"]["suites"]["mine"]
GRID = ADDED["grid"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    row = {"question": "17*6=?", "gold": "102"}
    (tmp_path / "my_problems.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def load(root: Path, suites: dict[str, Any] | None = None, **more: Any) -> Experiment:
    suites = tiny_world.OVERRIDES["data"]["suites"] | (suites or {})
    return tiny_world.load(root, data=tiny_world.OVERRIDES["data"] | {"suites": suites}, **more)


def evaluation_of(experiment: Experiment, suite: str) -> Iterator[Step]:
    """Every step that samples, scores or evaluates a policy on a suite."""
    for policy in (policy for policy, of in experiment.evaluations if of == suite):
        yield steps.curves(experiment, policy, suite)
        for block in experiment.blocks():
            yield steps.sample(experiment, policy, suite, block)
            yield steps.score(experiment, policy, suite, block)


def described(experiment: Experiment, suite: str) -> list[Any]:
    made = evaluation_of(experiment, suite)
    return [(step.command, step.settings_hash, step.outputs, step.input_files) for step in made]


def test_a_suite_of_ones_own_leaves_the_steps_of_the_others(root: Path) -> None:
    before, after = load(root), load(root, {"mine": OWN}, grid=GRID)
    for suite in ("standard", "contamination_free"):
        assert described(after, suite) == described(before, suite)
        assert described(before, suite)
    policies = {policy for policy, suite in after.evaluations if suite == "mine"}
    assert policies == {"small--base", "small--policy-gradient--k1--n16--s0"}
    assert after.evaluations[: len(before.evaluations)] == before.evaluations
    assert {*after.data_sets} - {*before.data_sets} == {"products"}


def test_a_benchmark_more_in_a_suite_is_another_suite(root: Path) -> None:
    standard = tiny_world.OVERRIDES["data"]["suites"]["standard"]
    before, after = load(root), load(root, {"standard": standard | OWN})
    for old, new in zip(
        evaluation_of(before, "standard"), evaluation_of(after, "standard"), strict=True
    ):
        is_curve = old.command.startswith("rspo curves")
        assert (old.settings_hash == new.settings_hash) == is_curve
        assert old.outputs == new.outputs
