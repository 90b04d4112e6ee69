"""The learning rate during training."""

from rspo.config.schema import Optimizer


def learning_rate_share(done: float, optimizer: Optimizer) -> float:
    """Learning rate as a share of its peak after `done` (0..1) of all updates."""
    warmup = optimizer.warmup_ratio
    if done < warmup:
        return done / warmup
    if optimizer.schedule == "constant":
        return 1.0
    return (1.0 - done) / (1.0 - warmup)
