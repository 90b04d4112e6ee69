"""The adapter for SkyRL against SkyRL itself; test_skyrl.py runs this where SkyRL is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch
from skyrl.backends.skyrl_train.training_batch import (
    TrainingInputBatch,
    pad_training_input_batch,
)
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import AlgorithmConfig
from skyrl.train.trainer import RayPPOTrainer

from rspo.adapters import skyrl
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, policy_loss, response_weights

REGISTRY = ppo_utils.AdvantageEstimatorRegistry

PROMPTS, N, TOKENS, WORDS = 6, 4, 5, 7
K, PADDED = 2, 3
MAX_SEQ_LEN = 11
CONFIG = AlgorithmConfig(
    **skyrl.ALLOWED,  # type: ignore[arg-type]
    advantage_estimator="tested",
    max_seq_len=MAX_SEQ_LEN,
)


def register(objective: str) -> None:
    if "tested" in REGISTRY.list_available():
        REGISTRY.unregister("tested")
    skyrl.register(objective, K, "tested")


def trainer_of(config: AlgorithmConfig) -> Any:
    """What the tested methods of SkyRL's trainer use of it."""
    algorithm = SimpleNamespace(algorithm=config, micro_train_batch_size_per_gpu=4)
    generator = SimpleNamespace(step_wise_trajectories=False)
    return SimpleNamespace(
        cfg=SimpleNamespace(trainer=algorithm, generator=generator), all_metrics={}
    )


def batch_of(rewards: np.ndarray, order: torch.Tensor) -> TrainingInputBatch:
    """Responses of different lengths in any order, each with its reward at its last token."""
    lengths = 1 + torch.arange(PROMPTS * N) % TOKENS
    mask = (torch.arange(TOKENS) < lengths[:, None]).float()
    token_rewards = torch.zeros(PROMPTS * N, TOKENS)
    token_rewards[torch.arange(PROMPTS * N), lengths - 1] = torch.tensor(rewards.flatten()).float()
    columns = {"rewards": token_rewards, "response_mask": mask, "loss_mask": mask}
    batch = TrainingInputBatch({name: value[order] for name, value in columns.items()})
    batch["values"] = None
    uids = np.repeat([f"prompt {i}" for i in range(PROMPTS)], N)[order.numpy()]
    batch.metadata = {"uids": uids.tolist(), "avg_response_length": 3.0}
    return batch


def rewards_of(objective: str) -> np.ndarray:
    """Groups with every number of correct responses; negative rewards where they are allowed."""
    correct = (np.arange(PROMPTS) % (N + 1))[:, None] > np.arange(N)
    rewards = np.random.default_rng(0).permuted(correct, axis=1).astype(float)
    return rewards if OBJECTIVES[objective].binary else 0.3 * rewards - 1


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_gradient_is_that_of_policy_loss(objective: str) -> None:
    """Through the trainer's advantages, its padding and reduction, and its PPO loss."""
    register(objective)
    torch.manual_seed(0)
    rewards, order = rewards_of(objective), torch.randperm(PROMPTS * N)
    if objective == "hitchhiking":  # depends on the order within a group
        order = torch.arange(PROMPTS * N)
    logits = torch.randn(PROMPTS * N, TOKENS, WORDS, dtype=torch.float64, requires_grad=True)
    log_probs = logits.log_softmax(-1)[..., 0]

    batch = pad_training_input_batch(batch_of(rewards, order), PADDED)
    trainer = trainer_of(CONFIG)
    batch = RayPPOTrainer.compute_advantages_and_returns(trainer, batch)
    size = PROMPTS * N + PADDED
    batch = RayPPOTrainer._normalize_advantages(trainer, batch, [(0, size)])
    given = torch.cat([log_probs[order], log_probs[order][:1].expand(PADDED, TOKENS)])
    loss, _ = ppo_utils.ppo_policy_loss(
        given, given.detach(), batch["advantages"].double(), CONFIG, batch["loss_mask"]
    )
    (found,) = torch.autograd.grad(loss * size / (PROMPTS * N), logits, retain_graph=True)

    mask = batch_of(rewards, torch.arange(PROMPTS * N))["loss_mask"]
    shape = (PROMPTS, N, TOKENS)
    weights = response_weights(rewards, objective, K)
    expected_loss = policy_loss(
        log_probs.view(shape), mask.view(shape), weights, max_tokens=MAX_SEQ_LEN
    )
    (expected,) = torch.autograd.grad(expected_loss, logits)
    assert expected.norm() > 0
    assert (found - expected).norm() <= 1e-5 * expected.norm()


def estimate(config: AlgorithmConfig, uids: list[str], rewards: list[float]) -> torch.Tensor:
    advantages, _ = ppo_utils.compute_advantages_and_returns(
        token_level_rewards=torch.tensor(rewards)[:, None],
        response_mask=torch.ones(len(rewards), 1),
        index=uids,
        adv_estimator="tested",
        config=config,
    )
    return advantages[:, 0]


@pytest.mark.parametrize("name", skyrl.ALLOWED)
def test_a_setting_that_changes_the_loss_is_one_line(name: str) -> None:
    register("rspo_pass_at_k")
    allowed = skyrl.ALLOWED[name]
    other = not allowed if isinstance(allowed, bool) else "gspo"
    message = rf"trainer\.algorithm\.{name}={other!r}; allowed: {allowed!r}$"
    with pytest.raises(InputError, match=message):
        estimate(replace(CONFIG, **{name: other}), ["a", "a"], [0.0, 1.0])


def test_what_the_objective_does_not_allow_names_the_prompt() -> None:
    register("rspo_pass_at_k")
    with pytest.raises(InputError, match=r"^responses to prompt b: .* k = 2 with n = 1 "):
        estimate(CONFIG, ["a", "b", "a"], [0.0, 1.0, 1.0])
    with pytest.raises(InputError, match=r"^responses to prompt a: .* 0 or 1"):
        estimate(CONFIG, ["a", "a"], [0.5, 1.0])


def test_an_unknown_objective_is_one_line() -> None:
    with pytest.raises(InputError, match="unknown objective 'pass_at_k'; did you mean rspo_pass"):
        skyrl.register("pass_at_k", 2)


def test_ray_can_send_the_estimator_to_other_processes() -> None:
    """SkyRL's registry pickles it for an actor."""
    register("rspo_pass_at_k")
    estimator = REGISTRY.get("tested")
    copied = ray.cloudpickle.loads(ray.cloudpickle.dumps(estimator))
    REGISTRY.unregister("tested")
    REGISTRY.register("tested", copied)
    assert estimate(CONFIG, ["a", "a"], [0.0, 1.0]).tolist() == [0.0, 2.0]
