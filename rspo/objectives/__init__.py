"""Objectives: the rewards of a group of responses [..., n] -> their weights [..., n].

    from rspo.objectives import response_weights
    weights = response_weights(rewards, "rspo_pass_at_k", k=4)  # [prompts, n]
    loss = -(weights * response_log_probs).sum() / prompts      # log-probs summed over tokens

Pure functions on numpy arrays and torch tensors, for the engines of this project and for your own
trainer.
"""

from rspo.objectives.registry import (
    OBJECTIVES,
    KRule,
    Objective,
    response_weights,
    unknown_objective,
)

__all__ = ["OBJECTIVES", "KRule", "Objective", "response_weights", "unknown_objective"]
