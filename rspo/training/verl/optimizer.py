"""verl's optimizer settings, with a learning rate schedule.

verl imports this module by the name in common.yaml (`_target_`), also in processes that only check
a config. It is therefore separate from worker.py, which imports verl's workers.
"""

from dataclasses import dataclass

from verl.workers.config import FSDPOptimizerConfig


@dataclass
class ScheduledOptimizerConfig(FSDPOptimizerConfig):
    """verl's optimizer settings and the schedule after the warm-up: `constant` or `linear`.

    verl has no linear decay. `total_training_steps` counts updates here.
    """

    schedule: str = "constant"
