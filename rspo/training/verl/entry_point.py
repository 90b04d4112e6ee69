"""Registers every objective as an advantage estimator of verl.

`import verl` loads this module in the driver and in every worker, through the entry-point group
`verl.plugins`. docs/trainers.md describes how to use the estimators in your own verl.
"""

import logging
from functools import partial

from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES
from rspo.training.verl.advantages import estimator_name, token_advantages
from rspo.training.verl.interface import require_version


def register_estimators() -> None:
    """Register every objective under its name.

    Depends on verl/trainer/ppo/core_algos.py, which has the registry.

    Raises: InputError unless verl has the supported version; ValueError if an installed package
        registers an objective under a name that is taken.
    """
    require_version()
    from verl.trainer.ppo import core_algos

    for objective in OBJECTIVES:
        # verl refuses a second function under a name, and each `partial` is another function.
        if estimator_name(objective) not in core_algos.ADV_ESTIMATOR_REGISTRY:
            estimator = partial(token_advantages, objective)
            core_algos.register_adv_est(estimator_name(objective))(estimator)


try:
    register_estimators()
except (InputError, ValueError) as error:
    # verl logs the exceptions of entry points at level DEBUG only.
    logging.getLogger("rspo").error("no objective of rspo is available in verl: %s", error)
    raise
