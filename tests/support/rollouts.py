"""A small random policy, and one step's rollout of it with random rewards."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rspo.objectives import OBJECTIVES, response_weights
from rspo.policies.qwen2 import Qwen2, Shape
from rspo.policies.sampler import sample
from rspo.training.local import Rollout

PROMPTS, N = 6, 8


@dataclass(frozen=True)
class RewardedRollout(Rollout):
    """A rollout with the rewards that its weights were computed from."""

    rewards: Tensor  # (P, n)


def make_model(seed: int = 0) -> Qwen2:
    model = Qwen2(Shape(35, 64, 2, 2, 2, 192, context=28))
    model.initialise(0.1, torch.Generator().manual_seed(seed))
    return model


def make_rollout(
    model: Qwen2, objective: str, k: int, fraction_correct: float = 0.4, temperature: float = 1.0
) -> RewardedRollout:
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(2, 35, (PROMPTS, 10), generator=generator)
    responses = sample(
        model,
        prompts.tolist(),
        N,
        max_tokens=18,
        end=1,
        pad=0,
        generator=generator,
        temperature=temperature,
    )
    correct = (torch.rand(PROMPTS, N, generator=generator) < fraction_correct).double()
    rewards = correct if OBJECTIVES[objective].binary else correct * torch.rand(PROMPTS, N).double()
    weights = response_weights(rewards, objective, k).float()
    return RewardedRollout(prompts, responses, weights, rewards)
