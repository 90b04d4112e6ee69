"""What `rspo plan` assumes. docs/plan.md has the same numbers, each with its source.

A number that is a range has first the value for the least time.
"""

import numpy as np

from rspo.core.gpus import GPUS

RESPONSE_TOKENS = 700  # the length of a usual response
PROMPT_TOKENS = 100  # the length of a usual prompt

# --- sampling in a training step ------------------------------------------------------------------

# Seconds in which vLLM makes one token of every running response, without reading the weights, and
# more seconds for each of these responses, without the model's FLOPs.
SAMPLER_STEP_SECONDS = np.array([0.0015, 0.0036])
SAMPLER_RESPONSE_SECONDS = np.array([4e-6, 34e-6])
WEIGHT_BYTES = 2  # of a parameter in bfloat16

# --- the rest of a training step ------------------------------------------------------------------

# The fraction of the responses that the judge has still to read when the last one is sampled.
LEFT_TO_VERIFY = np.array([0.05, 0.55])
UTILISATION = np.array([0.41, 0.22])  # the fraction of a GPU's FLOPs per second that passes reach
# FLOPs for each parameter and token: 2 for a forward pass and 4 for a backward pass. An update also
# computes the forward pass a second time, to save memory.
FORWARD_FLOPS = 2
UPDATE_FLOPS = 8
KEPT_FRACTION = np.array([0.5, 1.0])  # the fraction of responses whose weight is not 0
# Seconds of an update for the sums of gradients, the optimizer, and waiting for the slowest GPU.
UPDATE_SECONDS = np.array([0.1, 0.5])
# Sending the weights to the sampler: seconds of any model, and for each 10^9 parameters.
WEIGHTS_SECONDS = np.array([0.5, 1.5])
WEIGHTS_SECONDS_PER_BILLION = np.array([0.17, 0.34])
IDLE_SECONDS = np.array([1.0, 5.0])  # of a step, between its phases

TRAINING_OVERHEAD = np.array([1.03, 1.1])  # the factor for start, validations and checkpoints

# --- evaluation -----------------------------------------------------------------------------------

# Tokens per second that an H100 samples of a reference model with 7.62e9 parameters.
EVALUATION_SPEED = np.array([15_000.0, 8_800.0])
REFERENCE_PARAMETERS = 7.62e9
REFERENCE_BANDWIDTH = GPUS["h100"].bandwidth
# Speeds are proportional to the GPU's bandwidth, and to (1 / parameters) to this power.
SPEED_EXPONENT = 0.21
JUDGE_SPEED = 50_000  # tokens per second that the judge reads on one GPU
EVALUATION_START_SECONDS = 120.0  # until a sampler or a judge is ready
