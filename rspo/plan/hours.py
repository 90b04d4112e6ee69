"""The hours of evaluations, and what the hours of every job depend on; estimated, not measured.

Every estimate is a range: an array with the least and the greatest value. `assumptions` has the
numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.gpus import GPUS, Gpu
from rspo.plan.assumptions import (
    EVALUATION_SPEED,
    REFERENCE_BANDWIDTH,
    REFERENCE_PARAMETERS,
    RESPONSE_TOKENS,
    SPEED_EXPONENT,
)

Range = NDArray[np.float64]  # (2,): least, most


class Sizes(NamedTuple):
    """What decides how long a policy takes to train and to sample.

    parameters: the number of parameters of the model.
    gpu: the kind of GPU.
    gpus: the number of GPUs that train the policy; 1 for a base policy, which only samples.
    """

    parameters: int
    gpu: Gpu
    gpus: int


def sizes_of(experiment: Experiment, policy: str) -> Sizes | None:
    """The sizes of a policy; None if no GPU trains it, or its model has no `parameters`."""
    config = experiment.config
    verl = config.verl
    parameters = config.models[experiment.model_of(policy)].parameters
    if parameters is None or verl is None or not experiment.trains_on_gpus:
        return None
    gpus = 1 if experiment.is_base(policy) else experiment.gpus_of(policy)
    return Sizes(parameters, GPUS[verl.gpu], gpus)


def sampling_seconds(sizes: Sizes, tokens: float | Range) -> Range:
    """The seconds that one GPU takes to sample a number of tokens for an evaluation."""
    rate = EVALUATION_SPEED * (REFERENCE_PARAMETERS / sizes.parameters) ** SPEED_EXPONENT
    seconds: Range = tokens / rate * REFERENCE_BANDWIDTH / sizes.gpu.bandwidth
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


def gpus_text(number: int) -> str:
    """A number of GPUs in words, such as "4 GPUs"."""
    return f"{number} GPU{'s' if number != 1 else ''}"
