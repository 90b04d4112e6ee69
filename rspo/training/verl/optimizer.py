"""verl's optimizer settings, with a learning rate schedule."""

from dataclasses import dataclass

from verl.workers.config import FSDPOptimizerConfig


@dataclass
class ScheduledOptimizerConfig(FSDPOptimizerConfig):
    """verl's optimizer settings and the schedule after the warm-up: `constant` or `linear`.

    verl has no linear decay. `total_training_steps` counts updates here.
    """

    schedule: str = "constant"
