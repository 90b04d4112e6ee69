"""Client of the judge's OpenAI-compatible API: concurrent requests with retries.

Settings and parsing follow the authors (IAAR-Shanghai/xVerify, src/xVerify/model.py and eval.py):
one user message, temperature 0.1, top-p 0.7, at most 2,048 tokens. A reply is valid only if it is
"correct" or "incorrect", ignoring case and surrounding spaces. An invalid reply counts as wrong.

The authors leave `top_k` and the repetition penalty to the server, and vLLM takes them from the
judge's generation_config.json. They are stated here, without an effect: the penalty would change
the odds of two words that the prompt contains, and the key of a verdict in the store would lack
what that file says.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import tenacity

from rspo.config.names import JUDGE_SAMPLING
from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError, LostProcess
from rspo.rewards.verdict import CORRECT, INCORRECT, INVALID_REPLY, NO_REPLY, REFUSED

# HTTP statuses after which a retry may succeed: timeouts, too many requests, server errors.
_RETRIABLE = {408, 409, 425, 429, 500, 502, 503, 504}


class _RefusedError(Exception):
    """The server rejects this prompt; a retry will not help."""


class _NoReplyError(Exception):
    """This attempt got no reply; a retry may."""


def reason_of(reply: str) -> str:
    """The verdict in a reply of the judge."""
    word = reply.strip().lower()
    return {"correct": CORRECT, "incorrect": INCORRECT}.get(word, INVALID_REPLY)


@dataclass(frozen=True)
class Judge:
    """A judge's server.

    client: an HTTP client with the server's address.
    check: raises LostProcess if the server has exited.
    """

    settings: XVerifySettings
    client: httpx.AsyncClient
    check: Callable[[], None]


async def ask_all(
    judges: Sequence[Judge], prompts: Mapping[str, str], keep: Callable[[str, str, str], None]
) -> None:
    """Send every prompt, with `concurrent_requests` requests to each server at a time.

    The next prompt goes to the first server with a free slot. Servers are not chosen by problem:
    the prompts of one problem share only its text, a tenth of a prompt, and a fixed server for each
    problem would leave other servers idle.

    If a prompt is refused or gets no reply for `retry_seconds`, the judge gets a short test prompt.
    If it answers that one, only the failed prompt remains without a verdict.

    Args:
        prompts: by key, a hexadecimal hash. The key also gives the seed of the reply.
        keep: called with each key, the reason of its verdict and the reply, in order of arrival.

    Raises: InputError as soon as a server does not answer the test prompt either; LostProcess if
        it has exited.
    """
    waiting = iter(prompts.items())
    slots = [judge for _ in range(judges[0].settings.concurrent_requests) for judge in judges]
    try:
        async with asyncio.TaskGroup() as tasks:
            for judge in slots[: len(prompts)]:
                tasks.create_task(_ask_in_turn(judge, waiting, keep))
    except* (InputError, LostProcess) as errors:
        raise errors.exceptions[0] from None


async def _ask_in_turn(
    judge: Judge, waiting: Iterator[tuple[str, str]], keep: Callable[[str, str, str], None]
) -> None:
    for key, prompt in waiting:
        request = _request(judge.settings, prompt) | {"seed": int(key[:8], 16)}
        try:
            reply = await _ask_until_answered(judge, request)
            keep(key, reason_of(reply), reply)
        except (_NoReplyError, _RefusedError) as error:
            await _answers_others(judge, error)
            keep(key, NO_REPLY if isinstance(error, _NoReplyError) else REFUSED, str(error))


def _request(settings: XVerifySettings, prompt: str) -> dict[str, Any]:
    message = {"role": "user", "content": prompt}
    return {"model": settings.model, "messages": [message], **JUDGE_SAMPLING}


async def _ask_until_answered(judge: Judge, request: dict[str, Any]) -> str:
    async for attempt in tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(_NoReplyError),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
        stop=tenacity.stop_after_delay(judge.settings.retry_seconds),
        before_sleep=lambda _: judge.check(),
        reraise=True,
    ):
        with attempt:
            return await _ask_once(judge.client, request)
    raise AssertionError  # the last attempt returns or raises


async def _answers_others(judge: Judge, error: Exception) -> None:
    """Raises: InputError if the shortest prompt gets no reply either, with both errors."""
    request = _request(judge.settings, "1") | {"max_tokens": 1}
    try:
        await _ask_until_answered(judge, request)
    except (_NoReplyError, _RefusedError) as other:
        judge.check()
        raise InputError(
            f"the judge at {judge.client.base_url} {error}; and for the prompt '1' it {other}"
        ) from None


async def _ask_once(client: httpx.AsyncClient, request: dict[str, Any]) -> str:
    """The reply to one request.

    Raises: _NoReplyError if a retry may help, _RefusedError if not.
    """
    try:
        answer = await client.post("v1/chat/completions", json=request)
    except httpx.TransportError as error:
        raise _NoReplyError(f"gave no reply: {error or type(error).__name__}") from None
    said = " ".join(answer.text.split())[:200]
    if answer.status_code in _RETRIABLE:
        raise _NoReplyError(f"gave no reply: HTTP {answer.status_code} {said}")
    if answer.status_code != 200:
        raise _RefusedError(f"refused: HTTP {answer.status_code} {said}")
    try:
        return str(answer.json()["choices"][0]["message"]["content"])
    except (ValueError, LookupError, TypeError):
        raise _NoReplyError(f"gave no chat completion: HTTP 200 {said}") from None
