"""Pass@k and Max@k on held-out problems during training."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import digest, read_json_lines
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare
from rspo.pipeline.provenance import read_provenance
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from rspo.training.validation import held_out_prompts, validation_record
from tests.support import subsets, tiny_world

CELL = "small--rspo-pass--k4--n16--s0"
EVERY_TWO = {"every": 2, "problems": 40, "samples": 4}


def load(root: Path, validation: dict[str, Any], **training: Any) -> Experiment:
    changes = tiny_world.OVERRIDES["training"] | {"validation": validation} | training
    return tiny_world.load(root, training=changes)


def make(root: Path, validation: dict[str, Any], **training: Any) -> Experiment:
    experiment = load(root, validation, **training)
    prepare(experiment, "train")
    prepare(experiment, "validation")
    make_base_policy(experiment, "small")
    return experiment


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = make(tmp_path_factory.mktemp("validated"), EVERY_TWO, steps=5)
    train(experiment, CELL)
    return experiment


def without_seconds(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left_out = ("validation", "seconds", "tokens_per_second")
    return [{key: record[key] for key in record if key not in left_out} for record in records]


def test_the_policy_is_the_same_with_and_without_validation(
    validated: Experiment, tmp_path: Path
) -> None:
    never = make(tmp_path, EVERY_TWO | {"every": None}, steps=5)
    train(never, CELL)
    with_, without = (e.files.policy(CELL) / "model.safetensors" for e in (validated, never))
    assert with_.read_bytes() == without.read_bytes()
    records, plain = (read_json_lines(e.files.training_log(CELL)) for e in (validated, never))
    assert without_seconds(records) == without_seconds(plain)
    assert not any("validation" in record for record in plain)


def test_validation_runs_every_so_many_steps_and_after_the_last(validated: Experiment) -> None:
    """The log's provenance has its settings, which are no setting of the policy."""
    records = read_json_lines(validated.files.training_log(CELL))
    assert [record["step"] for record in records if "validation" in record] == [2, 4, 5]
    for record in records:
        entry = record.get("validation")
        assert entry is None or 0 < entry["pass_at_1"] <= entry["pass_at_2"] <= entry["pass_at_4"]
    note = read_provenance(validated.files.training_log(CELL))
    assert note["notes"]["validation"].items() >= EVERY_TWO.items()
    assert note["notes"]["validation"]["set"] == digest(validated.files.problems("validation"))
    assert "validation" not in note["settings"]["training"]


def test_the_record_is_the_mean_over_all_subsets_of_k_samples(tmp_path: Path) -> None:
    config = load(tmp_path, EVERY_TWO).config
    limit, discount = config.sampling.max_response_tokens, config.rewards.length_discount
    draw = np.random.default_rng(0)
    correct = draw.random((7, 4)) < 0.4
    lengths = draw.integers(1, limit + 1, (7, 4))
    rewards = correct * (1 - discount * lengths / limit)
    responses = [[0] * length for length in lengths.flatten()]
    found = validation_record(correct.flatten(), responses, MagicMock(), config)["validation"]
    for k in (1, 2, 4):
        assert found[f"pass_at_{k}"] == pytest.approx(subsets.mean_with_errors(correct, k)[0])
        assert found[f"max_at_{k}"] == pytest.approx(subsets.mean_with_errors(rewards, k)[0])
    assert len(found) == 6


def test_every_cell_is_validated_on_the_same_problems_of_all_families(
    validated: Experiment,
) -> None:
    tokenizer = ChatTokenizer(validated.files.policy("small--base"))
    drawn = held_out_prompts(validated, tokenizer)
    assert drawn is not None
    assert drawn == held_out_prompts(validated, tokenizer)
    assert len(drawn.tokens) == 40
    assert len(set(drawn.families)) == 5
    held_out, trained_on = (
        {
            row["prompt"][-1]["content"]
            for row in read_table(validated.files.problems(name), PROBLEMS)
        }
        for name in ("validation", "train")
    )
    assert set(drawn.questions) <= held_out - trained_on
