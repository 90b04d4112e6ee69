"""Hours of trainings and evaluations on GPUs, from formulas. Nothing was measured.

    sampling    tokens / (tokens per second * GPUs)
    passes      FLOPs / (FLOPs per second * utilisation * GPUs)

Every result is a range, an array (least, most).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.gpus import GPUS, Gpu

Range = NDArray[np.float64]  # (2,): least, most

# Sources and assumptions: docs/plan.md.
UTILISATION = np.array([0.39, 0.22])  # fraction of a GPU's FLOPs
# Tokens per second of 7B on an H100. They grow with the GPU's bandwidth, and with this power of
# 1 / parameters. In training, a step waits for its longest response.
EVALUATION, TRAINING = np.array([15_000.0, 8_800.0]), np.array([15_000.0, 2_800.0])
POWER, PARAMETERS, BANDWIDTH = 0.21, 7.62e9, GPUS["h100"].bandwidth
REST = np.array([2.0, 10.0])  # seconds of a step for all else, such as sending the weights
FORWARD, UPDATE = 2, 8  # FLOPs for each parameter and token; an update has two forward passes
# Tokens of a response and a prompt; the fraction of the responses whose weight is not 0; what
# start, validations and checkpoints add to the steps; tokens per second that a judge reads; seconds
# to start an evaluation.
RESPONSE, PROMPT, KEPT, NOT_STEPS = 700, 100, np.array([0.5, 1.0]), np.array([1.03, 1.1])
READING, START = 50_000, 120.0


class Sizes(NamedTuple):
    """parameters: of the model. ranks: number of GPUs."""

    parameters: int
    gpu: Gpu
    ranks: int


def sizes_of(experiment: Experiment, policy: str) -> Sizes | None:
    """None if the policy is not trained on GPUs, or its model has no `parameters`."""
    config = experiment.config
    parameters, verl = config.models[experiment.model_of(policy)].parameters, config.verl
    if parameters is None or verl is None or not experiment.trains_on_gpus:
        return None
    return Sizes(parameters, GPUS[verl.gpu], verl.ranks)


def sampling_seconds(sizes: Sizes, tokens: float | Range, speed: Range) -> Range:
    """Of one GPU, for so many tokens."""
    rate = speed * (PARAMETERS / sizes.parameters) ** POWER
    seconds: Range = tokens / rate * BANDWIDTH / sizes.gpu.bandwidth
    return seconds


def step_seconds(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """Seconds of a training step."""
    config = experiment.config
    responses = config.training.prompts_per_step * experiment.cell(cell).n
    tokens = min(RESPONSE, config.sampling.max_response_tokens)
    sampling = sampling_seconds(sizes, responses * tokens, TRAINING)
    flops = responses * (tokens + PROMPT) * sizes.parameters * (FORWARD + UPDATE * KEPT)
    seconds: Range = (sampling + flops / (sizes.gpu.flops * UTILISATION)) / sizes.ranks + REST
    return seconds


def evaluation_tokens(experiment: Experiment, responses: int) -> Range:
    """Of responses of the usual and of the maximum length."""
    longest = experiment.config.sampling.max_response_tokens
    return responses * np.array([min(RESPONSE, longest), longest], float)


def as_text(ranges: Sequence[Range]) -> str:
    """The sum of some ranges, such as `620 to 2,500`."""
    least, most = np.sum(ranges, axis=0) if ranges else (0.0, 0.0)
    texts = [f"{value:,.{0 if most >= 10 else 1}f}" for value in (least, most)]
    return " to ".join(dict.fromkeys(texts))
