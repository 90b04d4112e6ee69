"""The estimator of docs/trainers.md in SkyRL itself; test_skyrl.py runs this where SkyRL is."""

import dataclasses
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

from rspo.objectives import OBJECTIVES, policy_loss, response_weights
from tests.support import ROOT
from tests.support.pages import code_of

REGISTRY = ppo_utils.AdvantageEstimatorRegistry

PROMPTS, N, TOKENS, WORDS = 6, 4, 5, 7
K, PADDED = 2, 3
MAX_SEQ_LEN = 11
CONFIG = AlgorithmConfig(
    advantage_estimator="rspo",
    loss_reduction="seq_mean_token_sum_norm",
    max_seq_len=MAX_SEQ_LEN,
    use_kl_loss=False,
)
CODE = code_of(ROOT / "docs" / "trainers.md", "SkyRL")


def register(objective: str) -> None:
    """Run the page's code with another objective and k."""
    if "rspo" in REGISTRY.list_available():
        REGISTRY.unregister("rspo")
    assert '"rspo_pass_at_k", k=4' in CODE
    exec(CODE.replace('"rspo_pass_at_k", k=4', f'"{objective}", k={K}'), {})


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


def test_ray_can_send_the_estimator_to_other_processes() -> None:
    """SkyRL's registry pickles it for an actor."""
    register("rspo_pass_at_k")
    copied = ray.cloudpickle.loads(ray.cloudpickle.dumps(REGISTRY.get("rspo")))
    rewards, mask = torch.tensor([[0.0], [1.0]]), torch.ones(2, 1)
    given = {"token_level_rewards": rewards, "response_mask": mask, "index": ["a", "a"]}
    advantages, _ = copied(**given, config=CONFIG)
    assert advantages[:, 0].tolist() == [0.0, 2.0]
    with pytest.raises(AssertionError):
        copied(**given, config=dataclasses.replace(CONFIG, use_kl_loss=True))
