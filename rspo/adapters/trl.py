"""For TRL: a GRPOTrainer whose advantages are n times the weights of an objective.

The weight w_i contains the factor 1/n, and TRL's loss `dr_grpo` takes the mean over all responses,
which is another 1/n, and divides by the constant T = max_completion_length. With P prompts x, the
loss is

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights
from rspo.objectives.registry import unknown_objective

SUPPORTED = "1.16.0"
# Check the version before importing TRL, whose other versions may lack what this module uses.
try:
    installed = version("trl")
except PackageNotFoundError:
    raise InputError(f"trl is not installed: `pip install trl=={SUPPORTED}`") from None
if installed != SUPPORTED:
    raise InputError(
        f"found trl {installed}; rspo supports trl {SUPPORTED}, because its adapter uses functions "
        "that differ in other versions"
    )

import trl  # noqa: E402, after the check

# Settings of trl.GRPOConfig that change the loss or the advantages, and the only value that gives
# the loss above.
ALLOWED = {
    "loss_type": "dr_grpo",
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token",
    "beta": 0.0,
    "delta": None,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "mask_truncated_completions": False,
    "use_liger_kernel": False,
}


class RSPOTrainer(trl.GRPOTrainer):
    """TRL's GRPOTrainer with the weights of an objective.

    In validation, where groups may be smaller, the trainer keeps GRPO's advantages.

    Args:
        objective: a name in `OBJECTIVES`.
        k: the k of Pass@k or Max@k; objectives without k ignore it.
        args: trl.GRPOConfig with the values of `ALLOWED`; `num_generations` is n.
        further, named: all other arguments, which are those of GRPOTrainer.

    Raises: InputError for settings, an objective or a k that are not allowed.
    """

    def __init__(
        self,
        *further: Any,
        objective: str,
        args: trl.GRPOConfig,
        k: int | None = None,
        **named: Any,
    ) -> None:
        require_settings(args, objective, k)
        self._objective = objective
        self._k = k
        super().__init__(*further, args=args, **named)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        """Keep the rewards that TRL computes: (responses of all processes, reward functions).

        TRL's sampler puts the responses to a prompt next to each other.
        """
        self._rewards_per_function = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Replace GRPO's advantages in the batch of this process, when training."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.model.training:
            rewards = total_rewards(self._rewards_per_function, self.reward_weights)
            groups = rewards.view(-1, self.num_generations)
            advantages = response_advantages(groups, self._objective, self._k).flatten()
            self._replace_logged(advantages)
            # The rewards are those of all processes, in the order of the processes.
            first = self.accelerator.process_index * len(inputs)
            batch["advantages"] = advantages[first : first + len(inputs)]
        return batch

    def _replace_logged(self, advantages: Tensor) -> None:
        """Replace GRPO's advantages of this batch, the last ones in TRL's table of completions."""
        logged = self._logs["advantages"]
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.tolist())


def total_rewards(rewards_per_function: Tensor, reward_weights: Tensor) -> Tensor:
    """The weighted sum over reward functions, as in TRL.

    Args:
        rewards_per_function: (responses, functions), NaN where a function returned None.
        reward_weights: (functions,).

    Returns: (responses,), NaN where all functions returned None.
    """
    total = (rewards_per_function * reward_weights.to(rewards_per_function.device)).nansum(dim=1)
    return total.masked_fill(rewards_per_function.isnan().all(dim=1), torch.nan)


def response_advantages(rewards: Tensor, objective: str, k: int | None) -> Tensor:
    """Return n times the weights of the responses; rewards and advantages are (prompts, n).

    Raises: InputError for rewards that the objective does not accept.
    """
    try:
        return rewards.shape[-1] * response_weights(rewards, objective, k)
    except ValueError as error:
        raise InputError(f"reward_funcs: {error}") from None


def require_settings(args: trl.GRPOConfig, objective: str, k: int | None) -> None:
    """Raises: InputError that names the first setting with a value that is not allowed."""
    for name, allowed in ALLOWED.items():
        if getattr(args, name) != allowed:
            raise InputError(f"{name}={getattr(args, name)!r} of GRPOConfig; allowed: {allowed!r}")
    if objective not in OBJECTIVES:
        raise InputError(unknown_objective(objective))
    # Find a k that does not fit n now, and not at the first batch.
    try:
        response_weights([0.0] * args.num_generations, objective, k)
    except ValueError as error:
        raise InputError(f"k={k}, num_generations={args.num_generations}: {error}") from None
