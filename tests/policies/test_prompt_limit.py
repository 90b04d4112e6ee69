"""Prompts over the limit: training leaves them out, evaluation keeps them, both list them."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.config.schema import Sampling
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, read_table, write_table
from rspo.datasets.prepare import prepare
from rspo.evaluation.sample import sample_suite
from rspo.pipeline import tasks
from rspo.pipeline.run import record
from rspo.policies.prompt_limit import response_tokens
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import tiny_world
from tests.support.problem_rows import problem

LIMITS = Sampling(temperature=1.0, top_p=1.0, max_prompt_tokens=10, max_response_tokens=18)
CELL = "small--policy-gradient--k1--n16--s0"
LONG = "(12)+(34)-5=?"  # 13 tokens, one per character; the limit of the tiny scale is 10


@pytest.mark.parametrize(("prompt", "response"), [(1, 18), (10, 18), (11, 17), (27, 1)])
def test_a_long_prompt_shortens_its_response(prompt: int, response: int) -> None:
    assert response_tokens(prompt, LIMITS) == response


def test_a_prompt_that_leaves_no_response_is_an_error() -> None:
    with pytest.raises(InputError, match=r"28 tokens leaves none .* fewer than .* = 28"):
        response_tokens(28, LIMITS)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """A small experiment with a base policy, and problems of which the second is too long."""
    experiment = tiny_world.load(tmp_path)
    make_base_policy(experiment, "small")
    for name in experiment.benchmarks_of("standard"):
        prepare(experiment, name)
    for name in ("train", "linear"):
        problems = [problem(name, row, LONG if row == 1 else f"{row}+1=?") for row in range(40)]
        write_table(experiment.files.problems(name), PROBLEMS, problems)
        record(tasks.prepare(experiment, name))
    return experiment


def notes(path: Path) -> dict[str, Any]:
    provenance = json.loads(path.with_name(path.name + ".provenance.json").read_text())
    result: dict[str, Any] = provenance["notes"]
    return result


def test_training_leaves_long_prompts_out_and_lists_them(
    experiment: Experiment, caplog: pytest.LogCaptureFixture
) -> None:
    train(experiment, CELL)
    assert "1 prompts of more than sampling.max_prompt_tokens = 10 tokens" in caplog.text
    assert "left out of training: train/1" in caplog.text
    for path in (experiment.files.policy(CELL), experiment.files.training_log(CELL)):
        assert notes(path)["prompts_too_long"] == ["train/1"]


def test_evaluation_keeps_long_prompts_with_shorter_responses(
    experiment: Experiment, caplog: pytest.LogCaptureFixture
) -> None:
    sample_suite(experiment, "small--base", "standard")
    path = experiment.files.samples("small--base", "standard", 0)
    rows = [row for row in read_table(path, SAMPLES) if row["benchmark"] == "linear"]
    n = experiment.config.evaluation.samples
    assert [row["problem_id"] for row in rows] == [
        f"linear/{p}" for p in range(40) for _ in range(n)
    ]
    longest = {row["problem_id"]: 0 for row in rows}
    for row in rows:
        longest[row["problem_id"]] = max(longest[row["problem_id"]], row["tokens"])
    assert longest.pop("linear/1") <= 10 + 18 - len(LONG)
    assert max(longest.values()) > 10 + 18 - len(LONG)
    assert "kept whole, with shorter responses: linear/1" in caplog.text
    assert notes(path)["prompts_too_long"] == ["linear/1"]
