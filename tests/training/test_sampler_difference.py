"""The bound on the difference between the sampler's log-probabilities and the actor's.

Its numbers are those of a tiny cell, trained for some steps: of the weights that sampled and, as if
these had not arrived, of those one step before, with an actor in float32 and in bfloat16.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rspo.config.experiment import base_name
from rspo.policies import qwen2
from rspo.policies.qwen2 import Qwen2, response_logits
from rspo.policies.sampler import Responses
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import verifier_of
from rspo.training.local import Trainer
from rspo.training.logs import MOST, sampler_warning, steps_above
from rspo.training.prompts import prompts_of_step, read_prompts
from tests.support import tiny_world

STEPS = 4


def records_of(differences: list[float]) -> list[dict[str, Any]]:
    return [
        {"step": step, "sampler": {"difference": value}}
        for step, value in enumerate(differences, 1)
    ]


@torch.no_grad()
def log_probs(model: Qwen2, prompts: Tensor, responses: Responses, dtype: torch.dtype) -> Tensor:
    """The actor's log-probabilities of the sampled tokens."""
    rows = torch.arange(len(responses.tokens)) // (len(responses.tokens) // len(prompts))
    actor = copy.deepcopy(model).to(dtype)
    logits = response_logits(actor, prompts, rows, responses.tokens).float()
    chosen = logits.log_softmax(dim=-1).gather(-1, responses.tokens[..., None])[..., 0]
    return chosen[responses.mask]


def differences(folder: Path) -> Iterator[dict[tuple[str, torch.dtype], float]]:
    """For each step, by the sampler's weights and the actor's precision."""
    experiment = tiny_world.load_prepared(folder)
    cell = experiment.cell("small--rspo-pass--k4--n16--s0")
    base = experiment.policy(base_name(cell.model))
    tokenizer, model = ChatTokenizer(base), qwen2.load(base)
    prompts, _ = read_prompts(experiment.problems("train"), tokenizer, experiment.config.sampling)
    with verifier_of(experiment, "exact", folder / "verdicts", []) as verify:
        trainer = Trainer(experiment.config, cell, model, tokenizer, verify)
        before = copy.deepcopy(model)
        steps = trainer.train(prompts)
        for step in range(STEPS):
            rows = prompts_of_step(prompts.families, experiment.config.training, cell.seed, step)
            batch = prompts.of(rows)
            found = {}
            for name, sampler in (("right", model), ("stale", before)):
                trainer.model = sampler
                responses = trainer.sample(batch.tokens, cell.n, "sampling", step)
                drawn, read = responses.log_probs[responses.mask], torch.tensor(batch.tokens)
                for dtype in (torch.float32, torch.bfloat16):
                    actor = log_probs(model, read, responses, dtype)
                    found[name, dtype] = (actor - drawn).abs().mean().item()
            trainer.model, before = model, copy.deepcopy(model)
            yield found
            next(steps)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, float]]:
    return list(differences(tmp_path_factory.mktemp("cell")))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_one_step_old_exceed_the_bound_and_right_ones_do_not(
    measured: list[dict[Any, float]], dtype: torch.dtype
) -> None:
    right, stale = ([step[name, dtype] for step in measured] for name in ("right", "stale"))
    assert steps_above(records_of(right)) == []
    assert steps_above(records_of(stale)) == [2, 3, 4], stale  # all but the first


def test_a_sampler_that_is_wrong_from_the_first_step_exceeds_the_bound() -> None:
    assert steps_above(records_of([MOST * 0.9] * 2)) == []
    assert steps_above(records_of([MOST * 1.1] * 2)) == [1, 2]
    assert steps_above(records_of([float("nan"), 0.001])) == [1]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_the_bound_is_that_of_the_first_difference_that_is_a_number(wrong: float) -> None:
    assert steps_above(records_of([wrong, 0.01, 0.02, 0.04])) == [1, 4]
    assert steps_above(records_of([wrong, wrong])) == [1, 2]


def test_the_warning_names_the_cells_and_their_first_step() -> None:
    logs = {"a": records_of([0.01, 0.02]), "b": records_of([0.01, 0.02, 0.2, 0.3]), "c": [{}]}
    assert ": b (2 steps, first 3)." in sampler_warning(logs)
    assert sampler_warning({"a": logs["a"], "c": []}) == ""
