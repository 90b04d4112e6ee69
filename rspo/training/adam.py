"""Adam with the learning rate and gradient clipping of the config."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from rspo.config.schema import Optimizer
from rspo.core.errors import InputError


def adam(
    parameters: Iterable[nn.Parameter], peak_rate: float, settings: Optimizer
) -> torch.optim.AdamW:
    """Create the optimizer of a policy.

    Every parameter gets a zero gradient. Adam would skip a parameter that has none. With zeros, a
    mini-batch in which every response is dropped still moves the parameters by their momentum, as
    it would without dropping.
    """
    parameters = list(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    decay = settings.weight_decay
    return torch.optim.AdamW(parameters, peak_rate, betas=settings.betas, weight_decay=decay)


def adam_step(
    optimizer: torch.optim.AdamW, peak_rate: float, settings: Optimizer, done: float
) -> tuple[float, float]:
    """Clip the gradient and update the parameters.

    Args:
        done: the updates before this one, as a fraction (0..1) of all updates.

    Returns: the norm of the gradient before clipping, and the learning rate.
    """
    rate = peak_rate * learning_rate_factor(done, settings)
    (group,) = optimizer.param_groups  # `adam` puts all parameters into one group
    group["lr"] = rate
    limit = settings.gradient_clip or float("inf")
    norm = nn.utils.clip_grad_norm_(group["params"], limit)
    optimizer.step()
    return float(norm), rate


def require_finite(gradient_norm: float, cell: str, step: int, rate: float) -> None:
    """Raises: InputError if the gradient of a step, counted from 1, is infinite or not a number."""
    if not math.isfinite(gradient_norm):
        raise InputError(
            f"{cell}: the gradient is not finite at step {step} (learning_rate = {rate}); a lower "
            "learning_rate may help"
        )


def learning_rate_factor(done: float, settings: Optimizer) -> float:
    """Learning rate divided by its peak, after the fraction `done` (0..1) of all updates."""
    warmup = settings.warmup_ratio
    if done < warmup:
        return done / warmup
    if settings.schedule == "constant":
        return 1.0
    return (1.0 - done) / (1.0 - warmup)  # "linear": from 1 after the warm-up to 0 at the end
