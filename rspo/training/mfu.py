"""Model FLOPs utilization: the part of the GPUs' peak that the passes of a step need.

    MFU = N (2 F + 6 U) / (seconds * GPUs * peak)

N is the number of parameters, F the tokens of which a forward pass computes log-probabilities, and
U those of a forward and backward pass: 2 operations per parameter and token forward, and 4 backward
(Kaplan et al. 2020, section 2.1). Prompts count, padding does not, and equal responses count as
often as they were sampled. Attention, below 5 % of the operations for responses of a thousand
tokens, is left out, and so is what a pass computes a second time to save memory. The peak is that
of dense operations in bfloat16, from the GPU's data sheet (`rspo.core.gpus.GPUS`).
"""

_FORWARD = 2  # operations per parameter and token
_FORWARD_AND_BACKWARD = 6


def model_flops_utilization(
    parameters: int,
    forward_tokens: int,
    updated_tokens: int,
    seconds: float,
    gpus: int,
    peak: float,
) -> float:
    """The MFU of the passes of a step, from 0 to 1.

    Args:
        parameters: of the model.
        forward_tokens: of prompts and responses whose log-probabilities were computed.
        updated_tokens: of prompts and responses of the updates, counted in each pass over them.
        seconds: that these passes took.
        peak: operations of a GPU per second.
    """
    tokens = _FORWARD * forward_tokens + _FORWARD_AND_BACKWARD * updated_tokens
    return parameters * tokens / (seconds * gpus * peak)
