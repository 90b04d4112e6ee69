"""`accuracy_reward` of TRL's trainers: 1 for a correct response, 0 for any other.

    GRPOTrainer(reward_funcs=accuracy_reward, train_dataset=problems, ...)

The data set needs a column `solution`, and this module needs the extra `math` of this package.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rspo.config.names import BOX_ONLY
from rspo.rewards import Answer, verify


def accuracy_reward(
    completions: Sequence[str | Sequence[Mapping[str, Any]]],
    solution: Sequence[Answer],
    log_extra: Callable[[str, list[str]], None] | None = None,
    verifier: str = "rules",
    time_limit: float = 5.0,
    extract: str | Sequence[str] = BOX_ONLY,
    **_: Any,
) -> list[float]:
    r"""Compute the reward of each completion. It is safe to call this from threads and processes.

    accuracy_reward([r"\boxed{0.5}", "It is 7."], [r"\frac{1}{2}", "7"])  # [1.0, 0.0]

    Args:
        completions: texts, or conversations that end with the response.
        solution: the answers, or texts with the answer in their last \boxed{}; several accepted
            forms of an answer are a list.
        log_extra: a function that TRL passes. With it, TRL's table of completions gets the column
            `verdict` with the reasons.
        verifier, time_limit, extract: see `rspo.rewards.verify`. Set them with `functools.partial`.
    """
    verdicts = verify(map(_text, completions), solution, verifier, time_limit, extract=extract)
    if log_extra is not None:
        log_extra("verdict", [verdict.reason for verdict in verdicts])
    return [float(verdict.correct) for verdict in verdicts]


def _text(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a response: a text as it is, or the content of the last message.

    The content may also be a list of parts, or None if the message has a tool call.
    """
    content = completion if isinstance(completion, str) else completion[-1]["content"]
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
