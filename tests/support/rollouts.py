"""One step's responses of a random policy, with random rewards, for tests of updates."""

import torch

from rspo.objectives import OBJECTIVES, response_weights
from rspo.policies.qwen2 import Qwen2
from rspo.policies.sampler import sample
from rspo.training.local import Rollout
from tests.support.random_policy import END, PAD, PROMPT, VOCABULARY

PROMPTS, N = 6, 8


def make_rollout(
    model: Qwen2, objective: str, k: int, share_right: float = 0.4, temperature: float = 1.0
) -> Rollout:
    """N responses to each of PROMPTS random prompts; a fraction `share_right` is correct."""
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
    correct = (torch.rand(PROMPTS, N, generator=generator) < share_right).double()
    rewards = correct if OBJECTIVES[objective].binary else correct * torch.rand(PROMPTS, N).double()
    weights = response_weights(rewards, objective, k).float()
    return Rollout(prompts, responses, correct, rewards, weights)
