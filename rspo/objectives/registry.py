"""The registry of objectives, and the function that applies one.

To add an objective, write a function `f(rewards [..., n], k) -> weights [..., n]` in float64 and
`register` it from any module (docs/add/objective.md). It then works in both engines and in config
files.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from rspo.objectives.entropic import rs_grpo, ttt_entropic
from rspo.objectives.group_advantages import grpo_passk, passk_training, w_reinforce
from rspo.objectives.hitchhiking import hitchhiking
from rspo.objectives.max_at_k import rspo_max_at_k, rspo_max_at_k_plug_in, rspo_max_at_k_ranked
from rspo.objectives.objective import KRule, Objective, short_name
from rspo.objectives.order_statistics import (
    maxpo,
    ordergrad_bottom_half,
    ordergrad_median,
    ordergrad_top_half,
)
from rspo.objectives.pass_at_k import rspo_pass_at_k, rspo_pass_at_k_plug_in
from rspo.objectives.pkpo import pkpo_s, pkpo_s_loo
from rspo.objectives.risk_neutral import grpo, policy_gradient
from rspo.objectives.tail import maxrl, maxrl_uncentred, tailrl, tailrl_centred
from rspo.passk import as_weights

if TYPE_CHECKING:
    import torch

    Nested = Sequence[float] | Sequence["Nested"]


_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")  # lower-case words, separated by single underscores
_peer = partial(Objective, peer=True)

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective("policy_gradient", policy_gradient, KRule.NONE),
        Objective("hitchhiking", hitchhiking, KRule.DIVIDES_N, ordered=True),
        Objective("rspo_pass_at_k", rspo_pass_at_k, KRule.AT_MOST_N, binary=True),
        Objective("rspo_pass_at_k_plug_in", rspo_pass_at_k_plug_in, KRule.ANY, binary=True),
        Objective("rspo_max_at_k", rspo_max_at_k, KRule.AT_MOST_N),
        Objective("rspo_max_at_k_ranked", rspo_max_at_k_ranked, KRule.AT_MOST_N),
        Objective("rspo_max_at_k_plug_in", rspo_max_at_k_plug_in, KRule.ANY),
        Objective("grpo", grpo, KRule.NONE, least_n=2),
        # Objectives of other papers (docs/objectives.md).
        _peer("pkpo_s", pkpo_s, KRule.AT_MOST_N),
        _peer("pkpo_s_loo", pkpo_s_loo, KRule.LESS_THAN_N),
        _peer("maxpo", maxpo, KRule.LESS_THAN_N),
        _peer("ordergrad_top_half", ordergrad_top_half, KRule.LESS_THAN_N),
        _peer("ordergrad_median", ordergrad_median, KRule.LESS_THAN_N),
        _peer("ordergrad_bottom_half", ordergrad_bottom_half, KRule.LESS_THAN_N),
        _peer("passk_training", passk_training, KRule.LESS_THAN_N, binary=True),
        _peer("grpo_passk", grpo_passk, KRule.NONE, least_n=2),
        _peer("tailrl", tailrl, KRule.NONE),
        _peer("tailrl_centred", tailrl_centred, KRule.NONE),
        _peer("maxrl", maxrl, KRule.NONE, binary=True),
        _peer("maxrl_uncentred", maxrl_uncentred, KRule.NONE, binary=True),
        _peer("rs_grpo", rs_grpo, KRule.NONE),
        _peer("ttt_entropic", ttt_entropic, KRule.NONE, least_n=3),
        _peer("w_reinforce", w_reinforce, KRule.NONE, binary=True),
    )
}


def compared() -> list[str]:
    """Names of the objectives in figures that show every objective.

    These are the paper's objectives and those that users register, without peers.
    """
    return [name for name, objective in OBJECTIVES.items() if not objective.peer]


def register(objective: Objective) -> None:
    """Add an objective to `OBJECTIVES`.

    Raises: ValueError if the name or its `short_name` is taken, or if the name is not made of
        lower-case letters, digits and single underscores; TypeError for anything but an
        `Objective`.
    """
    if not isinstance(objective, Objective):
        raise TypeError(f"must be an Objective, got a {type(objective).__name__}")
    name = objective.name
    if not _NAME.fullmatch(name):
        raise ValueError(f"objective {name!r}: allowed: lower-case letters, digits and single _")
    for other in OBJECTIVES:
        if short_name(other) == short_name(name):
            raise ValueError(f"objective {name!r}: {other!r} exists already; choose another name")
    OBJECTIVES[name] = objective


def unknown_objective(name: str) -> str:
    """The error message for a name that is not in `OBJECTIVES`, with the closest name, if any."""
    from difflib import get_close_matches

    allowed = ", ".join(OBJECTIVES)
    meant = {objective: objective for objective in OBJECTIVES}
    for objective in OBJECTIVES:
        meant[short_name(objective)] = objective  # such as rspo-pass, as in names of cells
        meant[objective.replace("_at_", "")] = objective  # such as rspo_passk
    close = get_close_matches(name.lower(), list(meant), n=1)
    if close:
        return f"unknown objective {name!r}; did you mean {meant[close[0]]}? Allowed: {allowed}"
    return f"unknown objective {name!r}; allowed: {allowed}"


@overload
def response_weights(
    rewards: "NDArray[Any] | Nested", objective: str, k: int | None = None
) -> NDArray[Any]: ...


@overload
def response_weights(
    rewards: "torch.Tensor", objective: str, k: int | None = None
) -> "torch.Tensor": ...


def response_weights(
    rewards: "NDArray[Any] | Nested | torch.Tensor", objective: str, k: int | None = None
) -> "NDArray[Any] | torch.Tensor":
    """Compute the weight w_i of every response.

    The sum over i of w_i grad log pi(y_i|x) estimates the gradient of the objective.

    Args:
        rewards: numpy array, torch tensor or nested lists of floats, integers or booleans, shape
            [..., n]; the last axis is the group of n responses to one prompt, in the order in which
            they were sampled.
        objective: a name in `OBJECTIVES`.
        k: the k of Pass@k or Max@k. Objectives that have no k (`KRule.NONE`), such as
            `policy_gradient`, ignore it; every other objective requires it.

    Returns: weights of the same type, shape, dtype and device; they include the factor 1/n. They
        carry no gradient, as rewards do not depend on the policy's parameters. Lists give a numpy
        array. Integers and booleans give float64 (numpy) or torch's default dtype.

    The weights are computed in float64 on the CPU, so that numpy and torch give the same numbers on
    every device. Rewards on a GPU are copied to the CPU, and the weights back, both in the dtype of
    the rewards: 8 KB each way for 128 prompts with 16 responses in float32. The first copy waits
    for the work that the GPU was given before; rewards that are on the CPU, where reward functions
    compute them, need not wait. Those are copied only to change their dtype, or for a function that
    the user registered.

    Raises:
        TypeError: rewards are none of these types, masked, or not real numbers; the objective is
            not a string.
        ValueError: unknown objective; k missing, not an integer or outside the objective's rule;
            an empty group; lists of different lengths; a NaN or infinite reward; a reward other
            than 0 and 1 given to a Pass@k objective; a registered objective that returns another
            shape, or a weight that is not finite.
    """
    if not isinstance(objective, str):
        raise TypeError(f"objective must be a name in OBJECTIVES, got {type(objective).__name__}")
    if objective not in OBJECTIVES:
        raise ValueError(unknown_objective(objective))
    chosen = OBJECTIVES[objective]
    if isinstance(rewards, (list, tuple)):
        try:
            rewards = np.array(rewards)
        except ValueError:
            raise ValueError("rewards are lists of different lengths") from None
    if isinstance(rewards, np.ma.MaskedArray):
        raise TypeError("rewards are a masked array; pass groups of each size separately")
    if isinstance(rewards, np.ndarray):
        if rewards.dtype.kind not in "fiub":  # floats, integers, booleans
            raise TypeError(f"rewards must be real numbers, got dtype {rewards.dtype}")
        weights = _weights(rewards.astype(np.float64, copy=False), chosen, k)
        if rewards.dtype.kind == "f":
            return weights.astype(rewards.dtype, copy=False)
        return weights

    import torch  # not needed for numpy arrays

    if not isinstance(rewards, torch.Tensor):
        raise TypeError(
            f"rewards must be a numpy array, a torch tensor or lists, got {type(rewards)}"
        )
    if rewards.is_complex():
        raise TypeError(f"rewards must be real numbers, got dtype {rewards.dtype}")
    # First to the CPU, then to float64: fewer bytes, and some GPUs have no float64.
    weights = _weights(rewards.detach().cpu().double().numpy(), chosen, k)
    dtype = rewards.dtype if rewards.is_floating_point() else torch.get_default_dtype()
    return torch.from_numpy(weights).to(dtype).to(rewards.device)


def _weights(
    rewards: NDArray[np.float64], objective: Objective, k: int | None
) -> NDArray[np.float64]:
    """Check rewards in float64, k and n, and apply the objective; see `response_weights`."""
    if rewards.ndim == 0 or rewards.shape[-1] == 0:
        raise ValueError(f"rewards need a last axis of n >= 1 responses, got shape {rewards.shape}")
    n = rewards.shape[-1]
    if k is None:
        if objective.has_k:
            raise ValueError(f"{objective.name} needs a k, such as k=4")
        k = 1
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ValueError(f"k must be an integer, got {k!r}")
    if not objective.allows(int(k), n):
        used = f"n = {n} responses per prompt"
        allowed = f"n >= {objective.least_n}"
        if objective.has_k:
            used = f"k = {k} with {used}"
            allowed = f"{objective.k_rule.value}, {allowed}"
        raise ValueError(f"{objective.name} cannot use {used}; allowed: {allowed}")
    _require(np.isfinite(rewards), rewards, "must be finite")
    if objective.binary:
        _require((rewards == 0) | (rewards == 1), rewards, f"of {objective.name} must be 0 or 1")
    if not objective.built_in:  # the function of a user may change its argument
        rewards = rewards.copy()
    weights = objective.function(rewards, int(k))
    return as_weights(weights, rewards, objective.name).values


def _require(holds: NDArray[np.bool_], rewards: NDArray[np.float64], rule: str) -> None:
    """Raises: ValueError with the rule and the first reward for which it does not hold."""
    if not holds.all():
        index = tuple(int(i) for i in np.argwhere(~holds)[0])
        raise ValueError(f"rewards {rule}, got {rewards[index]} at index {index}")
