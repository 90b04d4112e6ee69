"""For TRL: a GRPOTrainer whose advantages are n times the weights of an objective.

The weight w_i contains the factor 1/n, and TRL's loss `dr_grpo` takes the mean over all responses,
which is another 1/n, and divides by the constant T = max_completion_length. With P prompts x, the
loss is

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)

Any version of TRL works whose `GRPOTrainer._generate_and_score_completions` returns `advantages`.
To override it is the way that TRL's maintainers advise (github.com/huggingface/trl/issues/4525).
There, TRL's advantages are the rewards minus the mean of their group. Most objectives, such as
Pass@k and Max@k with k >= 2, depend on differences of rewards only, so their weights follow from
these. The others need the rewards themselves, from `GRPOTrainer._calculate_rewards`, which is
private. Every batch is checked: TRL's advantages must be those of its rewards.
"""

from typing import Any

import numpy as np

from rspo.adapters import versions
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights
from rspo.objectives.registry import unknown_objective

try:
    import torch
    import trl
    from torch import Tensor
except ModuleNotFoundError as error:
    packages = {"torch": "torch", "trl": f"trl=={versions.TRL[-1]}"}
    if error.name not in packages:
        raise
    command = f"pip install {packages[error.name]}"
    raise InputError(f"{error.name} is not installed: `{command}`") from None

VERSION = getattr(trl, "__version__", "of an unknown version")


def _tested() -> str:
    return f"rspo was tested with {', '.join(versions.TRL)}"


for name in ("GRPOConfig", "GRPOTrainer"):
    if not hasattr(trl, name):
        raise InputError(f"trl {VERSION} has no {name}; {_tested()}")

GROUPS = 16  # with which `depends_on_differences` compares
ROUNDING = 1e-4  # of TRL's advantages, which are float32, relative to the largest reward

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

    Raises: InputError for settings, an objective or a k that are not allowed. In training: for
        rewards that the objective does not accept, and if TRL's advantages are not its rewards
        minus the mean of their group.
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
        versions.warn_unless_tested("trl", VERSION, versions.TRL)
        self._objective = objective
        self._k = k
        self._from_differences = depends_on_differences(objective, k, args.num_generations)
        self._rewards_per_function: Tensor | None = None
        super().__init__(*further, args=args, **named)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        """Keep the rewards that TRL computes: (responses of all processes, reward functions).

        TRL's sampler puts the responses to a prompt next to each other.
        """
        self._rewards_per_function = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Replace GRPO's advantages in the batch of this process, when training."""
        self._rewards_per_function = None
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.model.training:
            # Those of all processes, in the order of the processes.
            centred = self.accelerator.gather(batch["advantages"]).view(-1, self.num_generations)
            rewards = self._rewards_of(centred)
            advantages = response_advantages(rewards, self._objective, self._k).flatten()
            self._replace_logged(advantages)
            first = self.accelerator.process_index * len(inputs)
            batch["advantages"] = advantages[first : first + len(inputs)]
        return batch

    def _rewards_of(self, centred: Tensor) -> Tensor:
        """Rewards from which the weights follow, (prompts, n).

        Args:
            centred: (prompts, n), TRL's advantages.

        Raises: InputError if a response has no reward, if TRL's advantages are not centred rewards,
            or if the objective needs rewards that this version of TRL does not compute where it
            should.
        """
        known = None
        if self._rewards_per_function is not None:
            known = total_rewards(self._rewards_per_function, self.reward_weights)
            known = known.view(-1, self.num_generations)
            require_rewards(known, self._objective)
        require_centred(centred, known)
        if self._from_differences:
            return rewards_from_differences(centred, self._objective)
        if known is None:
            raise InputError(
                f"trl {VERSION} has no _calculate_rewards, which {self._objective} needs; "
                f"{_tested()}"
            )
        return known

    def _replace_logged(self, advantages: Tensor) -> None:
        """Replace GRPO's advantages of this batch, the last ones in TRL's table of completions.

        A version of TRL without this private table shows its own advantages there.
        """
        logged = getattr(self, "_logs", {}).get("advantages")
        if logged is None:
            return
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.tolist())


def depends_on_differences(objective: str, k: int | None, n: int) -> bool:
    """Whether the weights stay the same if a constant is added to all rewards of a group of n.

    For rewards of 0 and 1, the only such groups are those of equal rewards. An objective that
    refuses some rewards, such as negative ones, does not: the differences do not tell them.
    """
    if OBJECTIVES[objective].binary:
        groups = np.zeros((1, n))
        moved = np.ones((1, n))
    else:
        groups = np.random.default_rng(0).integers(-3, 5, (GROUPS, n)) / 4
        moved = groups + 0.75
    try:
        weights = response_weights(groups, objective, k)
        of_moved = response_weights(moved, objective, k)
    except ValueError:
        return False
    return np.allclose(weights, of_moved, rtol=1e-9, atol=1e-12)


def rewards_from_differences(centred: Tensor, objective: str) -> Tensor:
    """Rewards with the same differences within each group as TRL's advantages; both (prompts, n).

    Raises: InputError if the rewards must be 0 and 1, and two of them have another difference.
    """
    above = centred - centred.amin(dim=1, keepdim=True)
    if not OBJECTIVES[objective].binary:
        return above
    rewards = above.round()
    wrong = ((above - rewards).abs() > ROUNDING) | (rewards > 1)
    if wrong.any():
        difference = float(above[wrong][0])
        raise InputError(
            f"reward_funcs: rewards of {objective} must be 0 or 1, got two that differ by "
            f"{difference:g}"
        )
    return rewards


def require_rewards(rewards: Tensor, objective: str) -> None:
    """Raises: InputError if the objective does not accept a reward.

    A response for which all functions returned None has the reward NaN.
    """
    allowed = rewards.isfinite()
    rule = "must be finite"
    if OBJECTIVES[objective].binary and bool(allowed.all()):
        allowed = (rewards == 0) | (rewards == 1)
        rule = f"of {objective} must be 0 or 1"
    if not allowed.all():
        index = tuple((~allowed).nonzero()[0].tolist())
        got = float(rewards[index])
        raise InputError(f"reward_funcs: rewards {rule}, got {got} at index {index}")


def require_centred(centred: Tensor, rewards: Tensor | None) -> None:
    """Check that TRL's advantages are rewards minus the mean of their group.

    Args:
        centred: (prompts, n), TRL's advantages.
        rewards: (prompts, n); None if they are not known. Then only the sums are checked.

    Raises: InputError with the first group whose advantages are others.
    """
    given = centred if rewards is None else rewards
    expected = given - given.mean(dim=1, keepdim=True)
    largest = float(given.abs().max())
    if rewards is None:
        largest = max(largest, 1.0)  # rewards may be larger than their differences
    limit = ROUNDING * largest
    wrong = ((centred - expected).abs() > limit).any(dim=1)
    if wrong.any():
        group = int(wrong.nonzero()[0])
        of_rewards = "" if rewards is None else f" of the rewards {rewards[group].tolist()}"
        raise InputError(
            f"trl {VERSION} gives the advantages {centred[group].tolist()}{of_rewards}; expected: "
            f"{expected[group].tolist()}; {_tested()}"
        )


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
        value = getattr(args, name, allowed)  # older versions do not have all of them
        if value != allowed:
            raise InputError(f"{name}={value!r} of GRPOConfig; allowed: {allowed!r}")
    if objective not in OBJECTIVES:
        raise InputError(unknown_objective(objective))
    # Find a k that does not fit n now, and not at the first batch.
    try:
        response_weights([0.0] * args.num_generations, objective, k)
    except ValueError as error:
        raise InputError(f"k={k}, num_generations={args.num_generations}: {error}") from None
