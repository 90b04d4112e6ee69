"""`compute_score` of verl: 1 for a correct response, 0 for any other.

    reward.custom_reward_function.path=pkg://rspo.adapters.verl_reward
    reward.custom_reward_function.name=compute_score

This module needs the extra `math` of this package.
"""

from collections.abc import Sequence
from typing import Any

from rspo.config.names import BOX_ONLY
from rspo.rewards import Answer, verify


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Answer,
    extra_info: Any = None,
    verifier: str = "rules",
    time_limit: float = 5.0,
    reward_router_address: Any = None,
    reward_model_tokenizer: Any = None,
    extract: str | Sequence[str] = BOX_ONLY,
) -> dict[str, Any]:
    r"""Compute the score of a response. It is safe to call this from threads and processes.

    compute_score("math", r"\boxed{0.5}", r"\frac{1}{2}")
    # {'score': 1.0, 'acc': 1.0, 'reason': 'correct'}

    Args:
        data_source, extra_info, reward_router_address, reward_model_tokenizer: arguments that verl
            passes; they have no effect.
        solution_str: the response.
        ground_truth: the answer, or a list of its accepted forms.
        verifier, time_limit, extract: see `rspo.rewards.verify`. Set them as
            `reward.custom_reward_function.reward_kwargs.verifier`.

    Returns: `score`, which verl trains on; `acc`, the same number, which verl reports in
        validation; and `reason`, that of the verdict.
    """
    (verdict,) = verify([solution_str], [ground_truth], verifier, time_limit, extract=extract)
    correct = float(verdict.correct)
    return {"score": correct, "acc": correct, "reason": verdict.reason}
