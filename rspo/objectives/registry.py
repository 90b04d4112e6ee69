"""The registry of objectives, and the function that applies one.

To add an objective, write a function `f(rewards [..., n], k) -> weights [..., n]` in float64 and
add a line to `OBJECTIVES`. It then works in both engines, in the grid and in the property tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rspo.objectives.hitchhiking import hitchhiking
from rspo.objectives.max_at_k import rspo_max_at_k, rspo_max_at_k_plug_in, rspo_max_at_k_ranked
from rspo.objectives.pass_at_k import rspo_pass_at_k, rspo_pass_at_k_plug_in
from rspo.objectives.risk_neutral import grpo, policy_gradient

if TYPE_CHECKING:
    import torch

Rewards = TypeVar("Rewards", NDArray[Any], "torch.Tensor")


class KRule(Enum):
    """The values of k that an objective accepts for groups of n responses."""

    NONE = "has no k"
    ANY = "k >= 1"
    AT_MOST_N = "1 <= k <= n"
    DIVIDES_N = "k divides n"

    def allows(self, k: int, n: int) -> bool:
        """Whether k is allowed with groups of n; KRule.NONE ignores k and allows any."""
        if self is KRule.NONE:
            return True
        if self is KRule.DIVIDES_N:
            return 1 <= k <= n and n % k == 0
        return k >= 1 and (self is KRule.ANY or k <= n)


@dataclass(frozen=True)
class Objective:
    """One way to weight responses.

    name: in configs and in `response_weights`.
    function: float64 rewards [..., n] and k to weights [..., n].
    k_rule: which k it accepts.
    binary: whether rewards must be 0 or 1.
    least_n: the smallest n that it is defined for.
    """

    name: str
    function: Callable[[NDArray[np.float64], int], NDArray[np.float64]]
    k_rule: KRule
    binary: bool = False
    least_n: int = 1


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective("policy_gradient", policy_gradient, KRule.NONE),
        Objective("hitchhiking", hitchhiking, KRule.DIVIDES_N),
        Objective("rspo_pass_at_k", rspo_pass_at_k, KRule.AT_MOST_N, binary=True),
        Objective("rspo_pass_at_k_plug_in", rspo_pass_at_k_plug_in, KRule.ANY, binary=True),
        Objective("rspo_max_at_k", rspo_max_at_k, KRule.AT_MOST_N),
        Objective("rspo_max_at_k_ranked", rspo_max_at_k_ranked, KRule.AT_MOST_N),
        Objective("rspo_max_at_k_plug_in", rspo_max_at_k_plug_in, KRule.ANY),
        Objective("grpo", grpo, KRule.NONE, least_n=2),
    )
}


RENAMED = {
    "rspo_pass_at_k_plugin": "rspo_pass_at_k_plug_in",
    "rspo_max_at_k_plugin": "rspo_max_at_k_plug_in",
}


def unknown_objective(name: str) -> str:
    """The error message for a name that is not in `OBJECTIVES`."""
    if name in RENAMED:
        return f"objective {name!r} is now {RENAMED[name]!r}"
    return f"unknown objective {name!r}; allowed: {', '.join(OBJECTIVES)}"


def response_weights(rewards: Rewards, objective: str, k: int = 1) -> Rewards:
    """The weight w_i of every response: sum_i w_i grad log pi(y_i|x) estimates the gradient.

    Args:
        rewards: numpy array or torch tensor of a floating dtype, shape [..., n]; the last axis is
            the group of n responses to one prompt, in the order in which they were sampled.
        objective: a name in `OBJECTIVES`.
        k: of Pass@k or Max@k; `policy_gradient` and `grpo` have none and ignore it.

    Returns: weights of the same type, shape, dtype and device; they include the factor 1/n. They
        carry no gradient, as rewards do not depend on the policy's parameters.

    Raises:
        TypeError: rewards are neither numpy nor torch, or not of a floating dtype.
        ValueError: unknown objective; k not an integer or outside the objective's rule; an empty
            group; a NaN or infinite reward; a reward other than 0 and 1 given to a Pass@k
            objective.
    """
    if objective not in OBJECTIVES:
        raise ValueError(unknown_objective(objective))
    chosen = OBJECTIVES[objective]
    if isinstance(rewards, np.ndarray):
        if not np.issubdtype(rewards.dtype, np.floating):
            raise TypeError(f"rewards must have a floating dtype, got {rewards.dtype}")
        weights = _weights(rewards.astype(np.float64, copy=False), chosen, k)
        return weights.astype(rewards.dtype, copy=False)

    import torch  # not needed for numpy arrays

    if not isinstance(rewards, torch.Tensor):
        raise TypeError(f"rewards must be a numpy array or torch tensor, got {type(rewards)}")
    if not rewards.is_floating_point():
        raise TypeError(f"rewards must have a floating dtype, got {rewards.dtype}")
    # Computed in float64 on the CPU, so that numpy and torch give the same numbers on every device
    # (some GPUs have no float64).
    weights = _weights(rewards.detach().to("cpu", torch.float64).numpy(), chosen, k)
    return torch.from_numpy(weights).to(rewards.device, rewards.dtype)


def _weights(rewards: NDArray[np.float64], objective: Objective, k: int) -> NDArray[np.float64]:
    if rewards.ndim == 0 or rewards.shape[-1] == 0:
        raise ValueError(f"rewards need a last axis of n >= 1 responses, got shape {rewards.shape}")
    n = rewards.shape[-1]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ValueError(f"k must be an integer, got {k!r}")
    if n < objective.least_n or not objective.k_rule.allows(int(k), n):
        raise ValueError(
            f"{objective.name} cannot use k = {k} with n = {n} responses per prompt; "
            f"allowed: {objective.k_rule.value}, n >= {objective.least_n}"
        )
    _require(np.isfinite(rewards), rewards, "must be finite")
    if objective.binary:
        _require((rewards == 0) | (rewards == 1), rewards, f"of {objective.name} must be 0 or 1")
    return objective.function(rewards, int(k))


def _require(holds: NDArray[np.bool_], rewards: NDArray[np.float64], rule: str) -> None:
    if not holds.all():
        index = tuple(int(i) for i in np.argwhere(~holds)[0])
        raise ValueError(f"rewards {rule}, got {rewards[index]} at index {index}")
