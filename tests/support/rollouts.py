"""A small random policy, and one step's rollout of it with random rewards."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rspo.objectives import OBJECTIVES, response_weights
from rspo.policies.qwen2 import Qwen2
from rspo.policies.sampler import sample
from rspo.training.local import Rollout
from tests.support.random_policy import END, PAD, PROMPT, VOCABULARY, random_model

PROMPTS, N = 6, 8


@dataclass(frozen=True)
class RewardedRollout(Rollout):
    """A rollout with the rewards that its weights were computed from."""

    rewards: Tensor  # (P, n)


def make_model() -> Qwen2:
    """A random model with nearly uniform distributions."""
    return random_model(deviation=0.1)


def make_rollout(
    model: Qwen2, objective: str, k: int, fraction_correct: float = 0.4, temperature: float = 1.0
) -> RewardedRollout:
    """N responses to each of PROMPTS random prompts, with random rewards."""
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(2, VOCABULARY, (PROMPTS, PROMPT), generator=generator)
    responses = sample(
        model,
        prompts.tolist(),
        N,
        max_tokens=18,
        end=END,
        pad=PAD,
        generator=generator,
        temperature=temperature,
    )
    correct = (torch.rand(PROMPTS, N, generator=generator) < fraction_correct).double()
    rewards = correct if OBJECTIVES[objective].binary else correct * torch.rand(PROMPTS, N).double()
    weights = response_weights(rewards, objective, k).float()
    return RewardedRollout(prompts, responses, weights, rewards)
