"""verl's optimizer settings, with a learning rate schedule.

verl imports this module by the name in common.yaml (`_target_`), even in processes that only check
a config. Such processes must not import verl's workers, so this class is not in worker.py.
"""

from dataclasses import dataclass

from verl.workers.config import FSDPOptimizerConfig


@dataclass
class ScheduledOptimizerConfig(FSDPOptimizerConfig):
    """verl's optimizer settings and the schedule after the warm-up: `constant` or `linear`.

    verl has no linear decay. In this class, verl's field `total_training_steps` is the number of
    updates of the optimizer; a training step may make several.
    """

    schedule: str = "constant"
