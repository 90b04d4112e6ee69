"""Disk usage of a cell in bytes, from the number of its model's parameters."""

FLOAT32 = 4  # bytes
AT_ONCE = 2  # checkpoints: the previous one is removed when the next is complete


def checkpoint_bytes(parameters: float) -> float:
    """One checkpoint: weights, two moments, and the weights as a Hugging Face folder."""
    return (1 + 2 + 1) * FLOAT32 * parameters


def policy_bytes(parameters: float) -> float:
    return FLOAT32 * parameters


def peak_bytes(parameters: float) -> float:
    """The maximum, which a cell reaches while it writes a checkpoint."""
    return AT_ONCE * checkpoint_bytes(parameters)
