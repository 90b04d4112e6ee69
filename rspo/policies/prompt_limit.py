"""Prompts longer than `sampling.max_prompt_tokens`: one rule for all engines and samplers.

Training leaves them out. Evaluation keeps them in full, because dropping or truncating them would
change the benchmark, and shortens their responses.
"""

import logging
from collections.abc import Sequence

from rspo.config.schema import Sampling
from rspo.core.errors import InputError

_log = logging.getLogger(__name__)


def too_long(prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[int]:
    """Indices of the prompts (token ids) with more than `max_prompt_tokens` tokens."""
    return [index for index, ids in enumerate(prompts) if len(ids) > sampling.max_prompt_tokens]


def response_tokens(prompt_tokens: int, sampling: Sampling) -> int:
    """The maximum number of response tokens for a benchmark prompt of `prompt_tokens` tokens."""
    context = sampling.max_prompt_tokens + sampling.max_response_tokens
    if prompt_tokens >= context:
        raise InputError(
            f"a prompt of {prompt_tokens} tokens leaves none for its response; allowed: fewer than "
            f"sampling.max_prompt_tokens + sampling.max_response_tokens = {context}"
        )
    return min(sampling.max_response_tokens, context - prompt_tokens)


def report_too_long(ids: Sequence[str], sampling: Sampling, action: str) -> dict[str, list[str]]:
    """Log the problems that are too long and the action taken; return a note for provenance."""
    if ids:
        _log.warning(
            "%d prompts of more than sampling.max_prompt_tokens = %d tokens, %s: %s",
            len(ids),
            sampling.max_prompt_tokens,
            action,
            ", ".join(ids),
        )
    return {"prompts_too_long": list(ids)}
