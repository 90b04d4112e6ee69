"""What happens to prompts longer than `sampling.max_prompt_tokens`, in all engines and samplers.

Training leaves them out. Evaluation keeps them in full, because dropping or truncating them would
change the benchmark. It shortens their responses instead.
"""

import logging
from collections.abc import Sequence

from rspo.config.schema import Sampling
from rspo.core.errors import InputError

_log = logging.getLogger(__name__)


def too_long(prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[int]:
    """Indices of the prompts (token ids) with more than `max_prompt_tokens` tokens."""
    limit = sampling.max_prompt_tokens
    return [index for index, prompt in enumerate(prompts) if len(prompt) > limit]


def response_tokens(prompt_tokens: int, sampling: Sampling) -> int:
    """The maximum number of response tokens for a benchmark prompt of `prompt_tokens` tokens.

    Each token of a prompt above `max_prompt_tokens` leaves its response one token less.

    Raises: InputError if the prompt leaves no token for a response.
    """
    context = sampling.max_prompt_tokens + sampling.max_response_tokens
    if prompt_tokens >= context:
        raise InputError(
            f"a prompt of {prompt_tokens} tokens leaves none for its response; allowed: fewer than "
            f"sampling.max_prompt_tokens + sampling.max_response_tokens = {context}"
        )
    return min(sampling.max_response_tokens, context - prompt_tokens)


def report_too_long(
    problem_ids: Sequence[str], sampling: Sampling, action: str
) -> dict[str, list[str]]:
    """Warn of the problems whose prompts are too long, if there are any.

    Args:
        problem_ids: the ids of the problems whose prompts are too long.
        action: what is done with these problems, for the message, such as "left out of training".

    Returns: a note for the provenance.
    """
    if problem_ids:
        _log.warning(
            "%d prompts of more than sampling.max_prompt_tokens = %d tokens, %s: %s",
            len(problem_ids),
            sampling.max_prompt_tokens,
            action,
            ", ".join(problem_ids),
        )
    return {"prompts_too_long": list(problem_ids)}
