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

# docs/plan.md has the sources and the assumptions.
UTILISATION = np.array([0.39, 0.22])  # fraction of a GPU's FLOPs
# Tokens per second of a reference model of 7B on an H100. In training, a step waits for its longest
# response.
EVALUATION_SPEED = np.array([15_000.0, 8_800.0])
TRAINING_SPEED = np.array([15_000.0, 2_800.0])
REFERENCE_PARAMETERS = 7.62e9
REFERENCE_BANDWIDTH = GPUS["h100"].bandwidth
# Speeds are proportional to the GPU's bandwidth, and to this power of 1 / parameters.
SPEED_EXPONENT = 0.21
OTHER_STEP_SECONDS = np.array([2.0, 10.0])  # what else a step does, such as sending the weights
# FLOPs for each parameter and token. An update has two forward passes.
FORWARD_FLOPS = 2
UPDATE_FLOPS = 8
RESPONSE_TOKENS = 700
PROMPT_TOKENS = 100
KEPT_FRACTION = np.array([0.5, 1.0])  # of the responses: those whose weight is not 0
TRAINING_OVERHEAD = np.array([1.03, 1.1])  # factor for start, validations and checkpoints
JUDGE_SPEED = 50_000  # tokens per second that a judge reads
EVALUATION_START_SECONDS = 120.0


class Sizes(NamedTuple):
    """The sizes that decide how long a policy takes.

    parameters: number of parameters of the model.
    ranks: number of GPUs.
    """

    parameters: int
    gpu: Gpu
    ranks: int


def sizes_of(experiment: Experiment, policy: str) -> Sizes | None:
    """The sizes of a policy; None if no GPU trains it, or its model has no `parameters`."""
    config = experiment.config
    verl = config.verl
    parameters = config.models[experiment.model_of(policy)].parameters
    if parameters is None or verl is None or not experiment.trains_on_gpus:
        return None
    return Sizes(parameters, GPUS[verl.gpu], verl.ranks)


def sampling_seconds(sizes: Sizes, tokens: float | Range, speed: Range) -> Range:
    """Seconds of one GPU that samples a number of tokens.

    Args:
        speed: tokens per second of the reference model on the reference GPU.
    """
    rate = speed * (REFERENCE_PARAMETERS / sizes.parameters) ** SPEED_EXPONENT
    seconds: Range = tokens / rate * REFERENCE_BANDWIDTH / sizes.gpu.bandwidth
    return seconds


def step_seconds(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """Seconds of a training step."""
    config = experiment.config
    responses = config.training.prompts_per_step * experiment.cell(cell).n
    tokens = min(RESPONSE_TOKENS, config.sampling.max_response_tokens)
    sampling = sampling_seconds(sizes, responses * tokens, TRAINING_SPEED)
    read_tokens = responses * (tokens + PROMPT_TOKENS)
    flops = read_tokens * sizes.parameters * (FORWARD_FLOPS + UPDATE_FLOPS * KEPT_FRACTION)
    passes = flops / (sizes.gpu.flops * UTILISATION)
    seconds: Range = (sampling + passes) / sizes.ranks + OTHER_STEP_SECONDS
    return seconds


def evaluation_tokens(experiment: Experiment, responses: int) -> Range:
    """Tokens of a number of responses, of the usual and of the maximum length."""
    longest = experiment.config.sampling.max_response_tokens
    return responses * np.array([min(RESPONSE_TOKENS, longest), longest], float)


def as_text(ranges: Sequence[Range]) -> str:
    """The sum of some ranges, such as `620 to 2,500`."""
    least, most = np.sum(ranges, axis=0) if ranges else (0.0, 0.0)
    decimals = 0 if most >= 10 else 1
    texts = [f"{value:,.{decimals}f}" for value in (least, most)]
    return " to ".join(dict.fromkeys(texts))
