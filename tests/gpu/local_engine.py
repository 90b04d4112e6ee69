"""Sampling and gradients of the local engine on a device, compared with those of the CPU."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from rspo.core.seeds import generator_of
from rspo.core.tables import PROBLEMS, read_table
from rspo.policies import qwen2
from rspo.policies.device import CPU_FLOAT32, Place
from rspo.policies.qwen2 import Qwen2, padded_on_the_left
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.local import Rollout, backward, token_distributions
from tests.gpu.settings import SUITE, Settings

PROMPTS = 4
N = 8
RESPONSE_TOKENS = 12
# Of each data type: the mean difference of the log-probability of a token, and the norm of the
# difference of the gradients divided by the norm of the CPU's.
ALLOWED = {torch.float32: (1e-3, 1e-3), torch.bfloat16: (0.05, 0.3)}
EQUAL_TOKENS = 0.9  # least part of the tokens that are those of the CPU, in float32


@dataclass(frozen=True)
class Difference:
    """What a device computes otherwise than the CPU in float32.

    log_prob: the mean absolute difference of the log-probability of a token that the CPU sampled,
        as a training computes it.
    sampled_log_prob: the same of a token that the device sampled, as its sampler computes it. PPO's
        ratios contain this number.
    gradient: the norm of the difference of the gradients, divided by the norm of the CPU's.
    equal_tokens: the part of the tokens, sampled with the same random numbers, that are equal.
    """

    log_prob: float
    sampled_log_prob: float
    gradient: float
    equal_tokens: float


def compare(settings: Settings, folder: Path) -> str:
    """Compare the device of the settings with the CPU, for the model of a folder.

    Returns: what was measured.

    Raises: AssertionError if they differ by more than rounding.
    """
    experiment = settings.experiment()
    tokenizer = ChatTokenizer(folder)
    problems = read_table(experiment.files.problems(experiment.benchmarks_of(SUITE)[0]), PROBLEMS)
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems[:PROMPTS]])
    texts = []
    for dtype in ALLOWED:
        place = Place(torch.device(settings.device), dtype)
        found = difference(qwen2.load(folder), prompts, tokenizer.ends, tokenizer.pad, place)
        require_small(found, dtype)
        texts.append(
            f"{place.note['dtype']}: log-probabilities differ by {found.log_prob:.1g} on average, "
            f"those of the sampler by {found.sampled_log_prob:.1g}, the gradient by "
            f"{found.gradient:.1g}; {found.equal_tokens:.0%} of the tokens are equal"
        )
    return "; ".join(texts)


def require_small(found: Difference, dtype: torch.dtype) -> None:
    """Raises: AssertionError for differences that are more than rounding."""
    log_prob, gradient = ALLOWED[dtype]
    for name in ("log_prob", "sampled_log_prob"):
        value = getattr(found, name)
        assert value <= log_prob, f"{dtype}: {found}; allowed for {name}: {log_prob:g}"
    assert found.gradient <= gradient, f"{dtype}: {found}; allowed for gradient: {gradient:g}"
    if dtype == torch.float32:
        assert found.equal_tokens >= EQUAL_TOKENS, (
            f"{dtype}: {found}; expected for equal_tokens: at least {EQUAL_TOKENS:g}"
        )


def difference(
    model: Qwen2, prompts: Sequence[Sequence[int]], ends: Sequence[int], pad: int, place: Place
) -> Difference:
    """Sample and compute a gradient at a place and on the CPU in float32, with the same numbers.

    Args:
        model: on the CPU.
        ends: ids of the tokens that end a response.
    """
    expected = CPU_FLOAT32.put(copy.deepcopy(model))
    moved = place.put(model)
    responses = _sample(expected, prompts, ends, pad)
    sampled = _moved(_sample(moved, prompts, ends, pad), CPU_FLOAT32.device)
    is_equal = sampled.tokens == responses.tokens
    sampled_log_prob = _log_prob(expected, prompts, pad, sampled)
    log_prob = _log_prob(expected, prompts, pad, responses)
    gradient = _gradient(expected, prompts, pad, responses)
    on_device = _moved(responses, place.device)
    own_log_prob = _log_prob(moved, prompts, pad, on_device)
    own_gradient = _gradient(moved, prompts, pad, on_device)
    return Difference(
        _mean_difference(own_log_prob, log_prob),
        _mean_difference(sampled.log_probs[sampled.mask], sampled_log_prob),
        ((own_gradient - gradient).norm() / gradient.norm()).item(),
        is_equal[responses.mask].double().mean().item(),
    )


def _mean_difference(values: Tensor, expected: Tensor) -> float:
    return (values - expected).abs().mean().item()


def _sample(
    model: Qwen2, prompts: Sequence[Sequence[int]], ends: Sequence[int], pad: int
) -> Responses:
    generator = generator_of("gpu-check")
    return sample(
        model, prompts, N, max_tokens=RESPONSE_TOKENS, end=ends, pad=pad, generator=generator
    )


def _moved(responses: Responses, device: torch.device) -> Responses:
    moved = {field.name: getattr(responses, field.name).to(device) for field in fields(Responses)}
    return Responses(**moved)


def _rollout(
    model: Qwen2, prompts: Sequence[Sequence[int]], pad: int, responses: Responses
) -> Rollout:
    """The responses with weights 1 and -1 in turn, on the device of the model."""
    weights = torch.ones(len(prompts), N, device=model.device)
    weights[:, 1::2] = -1
    tokens, padding = padded_on_the_left(prompts, pad, model.device)
    return Rollout(tokens, responses, weights, padding=padding)


@torch.no_grad()
def _log_prob(
    model: Qwen2, prompts: Sequence[Sequence[int]], pad: int, responses: Responses
) -> Tensor:
    """The log-probability of each token of the responses, in one dimension, on the CPU."""
    rollout = _rollout(model, prompts, pad, responses)
    rows = torch.arange(len(responses.tokens), device=model.device)
    log_p = token_distributions(model, rollout, rows, 1.0)
    longest = log_p.shape[1]
    chosen = responses.tokens[:, :longest]
    log_prob = log_p.gather(-1, chosen[..., None])[..., 0]
    return log_prob[responses.mask[:, :longest]].cpu()


def _gradient(
    model: Qwen2, prompts: Sequence[Sequence[int]], pad: int, responses: Responses
) -> Tensor:
    """The gradient of the policy loss, in one dimension, on the CPU."""
    rollout = _rollout(model, prompts, pad, responses)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    part = torch.arange(len(prompts), device=model.device)
    # Without clipping: a ratio differs from 1 where the sampler rounds otherwise.
    backward(model, rollout, part, RESPONSE_TOKENS, float("inf"), 1.0)
    gradient = []
    for parameter in model.parameters():
        assert parameter.grad is not None
        gradient.append(parameter.grad.flatten().cpu())
    return torch.cat(gradient)
