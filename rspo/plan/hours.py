"""The hours of trainings and evaluations on GPUs, estimated by formulas, not measured.

    seconds of sampling = tokens / (tokens per second * GPUs)
    seconds of passes   = FLOPs / (FLOPs per second * utilisation * GPUs)

The passes are the forward and backward passes of a training step over the model. Every estimate is
a range: an array with the least and the greatest value. A constant that is a range has first the
value for the least time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.gpus import GPUS, Gpu

Range = NDArray[np.float64]  # (2,): least, most

# docs/plan.md has the sources and the assumptions.
UTILISATION = np.array([0.39, 0.22])  # the fraction of a GPU's FLOPs per second that passes reach
# Tokens per second that an H100 samples of a reference model with 7.62e9 parameters. In training, a
# step waits for its longest response, while most of the batch is finished.
EVALUATION_SPEED = np.array([15_000.0, 8_800.0])
TRAINING_SPEED = np.array([15_000.0, 2_800.0])
REFERENCE_PARAMETERS = 7.62e9
REFERENCE_BANDWIDTH = GPUS["h100"].bandwidth
# Speeds are proportional to the GPU's bandwidth, and to (1 / parameters) to this power.
SPEED_EXPONENT = 0.21
OTHER_STEP_SECONDS = np.array([2.0, 10.0])  # the rest of a step: sending the weights and so on
# FLOPs for each parameter and token: 2 for a forward pass and 4 for a backward pass. An update also
# computes the forward pass a second time, to save memory.
FORWARD_FLOPS = 2
UPDATE_FLOPS = 8
RESPONSE_TOKENS = 700  # the length of a usual response
PROMPT_TOKENS = 100  # the length of a usual prompt
KEPT_FRACTION = np.array([0.5, 1.0])  # the fraction of responses whose weight is not 0
TRAINING_OVERHEAD = np.array([1.03, 1.1])  # the factor for start, validations and checkpoints
JUDGE_SPEED = 50_000  # tokens per second that the judge reads on one GPU
EVALUATION_START_SECONDS = 120.0  # until a sampler or a judge is ready


class Sizes(NamedTuple):
    """What decides how long a policy takes to train and to sample.

    parameters: the number of parameters of the model.
    gpu: the kind of GPU.
    ranks: the number of GPUs that train the policy.
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
    """The seconds that one GPU takes to sample a number of tokens.

    Args:
        speed: how many tokens per second the reference GPU samples of the reference model.
    """
    rate = speed * (REFERENCE_PARAMETERS / sizes.parameters) ** SPEED_EXPONENT
    seconds: Range = tokens / rate * REFERENCE_BANDWIDTH / sizes.gpu.bandwidth
    return seconds


def step_seconds(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """The seconds of a training step of a cell."""
    config = experiment.config
    responses = config.training.prompts_per_step * experiment.cell(cell).n
    tokens = min(RESPONSE_TOKENS, config.sampling.max_response_tokens)
    sampling = sampling_seconds(sizes, responses * tokens, TRAINING_SPEED)
    # One forward pass over all responses computes their log-probabilities. The update passes only
    # over responses whose weight is not 0.
    read_tokens = responses * (tokens + PROMPT_TOKENS)
    flops = read_tokens * sizes.parameters * (FORWARD_FLOPS + UPDATE_FLOPS * KEPT_FRACTION)
    passes = flops / (sizes.gpu.flops * UTILISATION)
    seconds: Range = (sampling + passes) / sizes.ranks + OTHER_STEP_SECONDS
    return seconds


def evaluation_tokens(experiment: Experiment, responses: int) -> Range:
    """The tokens of a number of responses: if all have the usual length, and if all the maximum."""
    longest = experiment.config.sampling.max_response_tokens
    return responses * np.array([min(RESPONSE_TOKENS, longest), longest], float)


def as_text(ranges: Sequence[Range]) -> str:
    """The sum of some ranges, such as `620 to 2,500`; one number if both ends read the same."""
    least, most = np.sum(ranges, axis=0) if ranges else (0.0, 0.0)
    decimals = 0 if most >= 10 else 1
    texts = [f"{value:,.{decimals}f}" for value in (least, most)]
    return " to ".join(dict.fromkeys(texts))
