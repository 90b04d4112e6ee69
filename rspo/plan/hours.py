"""Hours of trainings and evaluations on GPUs, from formulas. Nothing was measured.

    sampling    tokens / (tokens per second * GPUs)
    passes      FLOPs / (FLOPs per second * utilisation * GPUs)

Every result is a range, an array (least, most).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.schema import Shape
from rspo.core.gpus import GPUS, Gpu

Range = NDArray[np.float64]  # (2,): least, most

# Fraction of a GPU's FLOPs that FSDP2 uses on 8 H100s: 0.33 to 0.39 for 8B parameters
# (https://github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md), 0.24 for 1B
# (https://huggingface.co/nanotron/old_bench).
UTILISATION = np.array([0.39, 0.24])
# Tokens per second of vLLM 0.18 with Qwen2.5-7B on an H100: 128 and 64 requests at a time
# (https://github.com/m0at/rvllm).
EVALUATION = np.array([14_500.0, 7_900.0])
# In training, a step waits for its longest response. NeMo RL takes 97.7 s for a step of 8B
# parameters on 16 H100s, with 2,048 responses of 1,060 tokens: 2,800 tokens per second, if sampling
# takes half of it (https://github.com/NVIDIA-NeMo/RL/blob/06beed91/docs/about/performance-summary.md).
TRAINING = np.array([14_500.0, 2_800.0])
# Both grow with the GPU's bandwidth, and with this power of 1 / parameters: rvllm's page has 12,700
# for Qwen2.5-1.5B on an A100, which is 20,900 at the bandwidth of an H100.
POWER, PARAMETERS, BANDWIDTH = 0.23, 7.62e9, GPUS["h100"].bandwidth
# Seconds of a step for the rest, such as sending the weights to the servers: 3.5 s for 9B
# parameters on 8 H800s (https://github.com/verl-project/verl/issues/7203).
REST = np.array([2.0, 10.0])
# Assumed: tokens of a response and a prompt (docs/verl.md); the fraction of the responses whose
# weight is not 0; what start, validations and checkpoints add to the steps; tokens per second that
# a judge reads; seconds to start an evaluation.
RESPONSE, PROMPT, KEPT, NOT_STEPS = 700, 100, np.array([0.5, 1.0]), np.array([1.03, 1.1])
READING, START = 50_000, 120.0


class Sizes(NamedTuple):
    """ranks: number of GPUs."""

    shape: Shape
    gpu: Gpu
    ranks: int

    def sampling_seconds(self, tokens: float | Range, speed: Range) -> Range:
        """Of one GPU, for so many tokens."""
        rate = speed * (PARAMETERS / self.shape.parameters) ** POWER
        seconds: Range = tokens / rate * BANDWIDTH / self.gpu.bandwidth
        return seconds


def sizes_of(experiment: Experiment, policy: str) -> Sizes | None:
    """None if the policy is not trained on GPUs, or its model has no `shape`."""
    config = experiment.config
    shape, verl = config.models[experiment.model_of(policy)].shape, config.verl
    on_gpus = experiment.trains_on_gpus and verl is not None and shape is not None
    return Sizes(shape, GPUS[verl.gpu], verl.ranks) if on_gpus else None


def flops_per_token(shape: Shape, length: int) -> tuple[float, float]:
    """FLOPs of a forward pass, and of an update, which computes each layer's activations twice.

    Args:
        length: tokens of a prompt with its response.
    """
    attention = 2 * length * shape.hidden_size * shape.num_hidden_layers  # half of all pairs
    layers, output = 2 * shape.of_layers + attention, 2 * shape.vocab_size * shape.hidden_size
    return layers + output, 4 * layers + 3 * output


def step_seconds(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """Seconds of a training step."""
    config = experiment.config
    responses = config.training.prompts_per_step * experiment.cell(cell).n
    tokens = min(RESPONSE, config.sampling.max_response_tokens)
    sampling = sizes.sampling_seconds(responses * tokens, TRAINING)
    forward, update = flops_per_token(sizes.shape, tokens + PROMPT)
    flops = responses * (tokens + PROMPT) * (forward + update * KEPT)
    seconds: Range = (sampling + flops / (sizes.gpu.flops * UTILISATION)) / sizes.ranks + REST
    return seconds


def training_hours(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """Hours of a cell."""
    seconds = experiment.config.training.steps * step_seconds(experiment, cell, sizes)
    hours: Range = seconds * NOT_STEPS / 3600
    return hours


def evaluation_hours(
    experiment: Experiment, sizes: Sizes | None, responses: int
) -> tuple[Range | None, Range]:
    """Hours of sampling and of judging, for responses of the usual and of the maximum length."""
    longest = experiment.config.sampling.max_response_tokens
    tokens = responses * np.array([min(RESPONSE, longest), longest], float)
    judging = (tokens / READING + START) / 3600
    if sizes is None:
        return None, judging
    return (sizes.sampling_seconds(tokens, EVALUATION) + START) / 3600, judging


def as_text(ranges: list[Range]) -> str:
    """The sum of some ranges, such as `620 to 2,500`."""
    least, most = np.sum(ranges, axis=0) if ranges else (0.0, 0.0)
    texts = [f"{value:,.{0 if most >= 10 else 1}f}" for value in (least, most)]
    return " to ".join(dict.fromkeys(texts))
