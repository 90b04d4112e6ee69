"""Prompts longer than `sampling.max_prompt_tokens`: one rule for every engine and sampler.

Tokens are counted with the policy's own tokenizer and chat template, so the rule is applied where
a policy meets its problems, before anything is sampled.

- A training problem that is too long is left out.
- A benchmark problem stays, whole: leaving it out or cutting it would change the benchmark. Its
  response gets what the prompt leaves of max_prompt_tokens + max_response_tokens.

Either way the problems are counted and named, in a log line and in the provenance of what is made.
"""

import logging
from collections.abc import Sequence

from rspo.config.schema import Sampling
from rspo.core.errors import InputError

_log = logging.getLogger(__name__)


def too_long(prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[int]:
    """Places of the prompts (token ids) that have more than `max_prompt_tokens`."""
    return [place for place, ids in enumerate(prompts) if len(ids) > sampling.max_prompt_tokens]


def response_tokens(prompt_tokens: int, sampling: Sampling) -> int:
    """The most tokens that the response to a benchmark prompt of that many tokens may have.

    Raises: InputError if nothing is left for a response.
    """
    context = sampling.max_prompt_tokens + sampling.max_response_tokens
    if prompt_tokens >= context:
        raise InputError(
            f"a prompt of {prompt_tokens} tokens leaves none for its response; allowed: fewer than "
            f"sampling.max_prompt_tokens + sampling.max_response_tokens = {context}"
        )
    return min(sampling.max_response_tokens, context - prompt_tokens)


def report_too_long(ids: Sequence[str], sampling: Sampling, what: str) -> dict[str, list[str]]:
    """Log which problems are too long and `what` became of them; the note for the provenance."""
    if ids:
        _log.warning(
            "%d prompts of more than sampling.max_prompt_tokens = %d tokens, %s: %s",
            *(len(ids), sampling.max_prompt_tokens, what, ", ".join(ids)),
        )
    return {"prompts_too_long": list(ids)}
