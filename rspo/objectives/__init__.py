"""What each response to a prompt is worth: rewards of a group [..., n] -> weights [..., n].

    from rspo.objectives import response_weights
    weights = response_weights(rewards, "rspo_pass_at_k", k=4)  # [prompts, n]
    loss = -(weights * response_log_probs).sum() / prompts      # log-probs summed over tokens

Nothing here does I/O or keeps state, so the same functions serve the `local` engine, verl and
anyone's own trainer.
"""

from rspo.objectives.registry import OBJECTIVES, KRule, Objective, response_weights

__all__ = ["OBJECTIVES", "KRule", "Objective", "response_weights"]
