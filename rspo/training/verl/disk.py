"""What a cell takes on disk, from the number of its model's parameters.

A checkpoint holds float32 numbers: the weights and Adam's two moments, in one file a rank, and the
weights again as a Hugging Face folder, which the last checkpoint hands on as the policy. A test
holds this against a checkpoint that verl wrote.
"""

FLOAT32 = 4  # bytes
AT_ONCE = 2  # checkpoints: the last one goes when the next is whole


def checkpoint_bytes(parameters: float) -> float:
    """Of one checkpoint: weights, two moments, and the weights as a Hugging Face folder."""
    return (1 + 2 + 1) * FLOAT32 * parameters


def policy_bytes(parameters: float) -> float:
    """Of a finished cell's policy."""
    return FLOAT32 * parameters


def peak_bytes(parameters: float) -> float:
    """The most that a cell takes: while a checkpoint is written."""
    return AT_ONCE * checkpoint_bytes(parameters)
