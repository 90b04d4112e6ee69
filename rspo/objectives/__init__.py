"""Objectives: functions from the rewards of a group of responses [..., n] to weights [..., n].

    from rspo.objectives import policy_loss, response_weights
    weights = response_weights(rewards, "rspo_pass_at_k", k=4)       # [prompts, n]
    loss = policy_loss(log_probs, mask, weights, max_tokens=1024)    # a scalar

Here, `rewards` have the shape [prompts, n], `log_probs` and `mask` [prompts, n, tokens].

`response_weights` and `policy_loss` are pure functions, for the engines of this project and for
your own trainer. The loss takes torch tensors. The weights may be computed from numpy arrays, too,
which does not need torch.
"""

from rspo.objectives.contract import check_weights
from rspo.objectives.loss import policy_loss
from rspo.objectives.objective import KRule, Objective, short_name
from rspo.objectives.registry import (
    OBJECTIVES,
    compared,
    register,
    response_weights,
    unknown_objective,
)
from rspo.objectives.unbiased import assert_unbiased

__all__ = [
    "OBJECTIVES",
    "KRule",
    "Objective",
    "assert_unbiased",
    "check_weights",
    "compared",
    "policy_loss",
    "register",
    "response_weights",
    "short_name",
    "unknown_objective",
]
