"""The objectives as advantage estimators of verl, for trainings with verl's own trainers.

verl 0.9 loads this module by itself, through the group of entry points `verl.plugins`. Older
versions load it with VERL_USE_EXTERNAL_MODULES=rspo.adapters.verl_estimators.

Any version of verl works that has `register_adv_est` in verl/trainer/ppo/core_algos.py, and calls
an estimator with the arguments of `token_advantages` (verl_advantages.py). verl_check.py checks the
first call.
"""

from functools import partial
from typing import Any

from torch import Tensor

from rspo.adapters import verl_check
from rspo.adapters.verl_advantages import estimator_name, k_of, token_advantages
from rspo.adapters.versions import LOGGER
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES


def register_estimators() -> None:
    """Register every objective under its name.

    Raises: InputError if verl has no registry of estimators where its tested versions have it;
        ValueError if an installed package registers an objective under a name that is taken.
    """
    core_algos = verl_check.module_with("verl.trainer.ppo.core_algos", "register_adv_est")
    for objective in OBJECTIVES:
        # verl refuses a second function under a name, and each `partial` is another function.
        if estimator_name(objective) not in core_algos.ADV_ESTIMATOR_REGISTRY:
            estimator = partial(checked_advantages, objective)
            core_algos.register_adv_est(estimator_name(objective))(estimator)


def checked_advantages(objective: str, **given: Any) -> tuple[Tensor, Tensor]:
    """The estimator that verl calls: `token_advantages`, and a check at its first call.

    Raises: InputError if verl does not pass what `token_advantages` needs, or if a group with known
        rewards has other advantages than n times its weights.
    """
    verl_check.require_arguments(estimator_name(objective), given)
    config = given["config"]
    k = k_of(config, objective)
    verl_check.check_once(objective, estimator_name(objective), k, config)
    return token_advantages(
        objective,
        given["token_level_rewards"],
        given["response_mask"],
        given["index"],
        config,
    )


try:
    register_estimators()
except (InputError, ValueError) as error:
    # verl logs the exceptions of entry points at level DEBUG only.
    LOGGER.error("no objective of rspo is available in verl: %s", error)
    raise
