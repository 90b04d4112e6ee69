"""Asking the judge over an OpenAI-compatible API: many requests at a time, each until answered.

Settings and parsing are upstream's (IAAR-Shanghai/xVerify, src/xVerify/model.py and eval.py): one
user message, temperature 0.1, top-p 0.7, at most 2,048 tokens; a reply counts only if it is
exactly "correct" or "incorrect", spaces around it and case aside, and every other one as wrong.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import tenacity

from rspo.config import XVerifySettings
from rspo.errors import InputError
from rspo.rewards.verdict import CORRECT, INCORRECT, INVALID_REPLY

SAMPLING = {"temperature": 0.1, "top_p": 0.7, "max_tokens": 2048}
# HTTP statuses of a server that may answer the next time: timeouts, too many requests, failures.
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504}
# What vLLM and OpenAI say, with HTTP 400, of a prompt that does not fit.
_TOO_LONG = "maximum context length"


class _NoReplyError(Exception):
    """This try got none; the next one may."""


def reason_of(reply: str) -> str:
    """The verdict that a reply of the judge stands for."""
    word = reply.strip().lower()
    return {"correct": CORRECT, "incorrect": INCORRECT}.get(word, INVALID_REPLY)


async def ask_all(
    settings: XVerifySettings,
    prompts: Mapping[str, str],
    client: httpx.AsyncClient,
    check_server: Callable[[], None],
    keep: Callable[[str, str | None], None],
) -> None:
    """Ask every prompt, `concurrent_requests` at a time.

    Args:
        prompts: by key, in hex; the key is the seed of the reply too.
        client: with the server's address.
        check_server: raises InputError if asking on is in vain.
        keep: gets each key and reply as it comes; None for a prompt beyond the judge's context.

    Raises: InputError as soon as one prompt has had no reply for `retry_seconds`, or was refused.
    """
    waiting = iter(prompts.items())
    count = min(settings.concurrent_requests, len(prompts))
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(_ask_in_turn(settings, waiting, client, check_server, keep))
    except* InputError as errors:
        raise errors.exceptions[0] from None


async def _ask_in_turn(
    settings: XVerifySettings,
    waiting: Iterator[tuple[str, str]],
    client: httpx.AsyncClient,
    check_server: Callable[[], None],
    keep: Callable[[str, str | None], None],
) -> None:
    for key, prompt in waiting:
        request = {
            "model": settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "seed": int(key[:8], 16),
            **SAMPLING,
        }
        try:
            async for attempt in tenacity.AsyncRetrying(
                retry=tenacity.retry_if_exception_type(_NoReplyError),
                wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
                stop=tenacity.stop_after_delay(settings.retry_seconds),
                before_sleep=lambda _: check_server(),
                reraise=True,
            ):
                with attempt:
                    keep(key, await _ask_once(client, request))
        except _NoReplyError as error:
            raise InputError(
                f"the judge at {client.base_url} gave no reply for "
                f"{settings.retry_seconds:g} seconds, the last time: {error}"
            ) from None


async def _ask_once(client: httpx.AsyncClient, request: dict[str, Any]) -> str | None:
    """One request's reply; None if the prompt does not fit the judge's context.

    Raises: _NoReplyError if another try may help, InputError if none will.
    """
    try:
        answer = await client.post("v1/chat/completions", json=request)
    except httpx.TransportError as error:
        raise _NoReplyError(str(error) or type(error).__name__) from None
    if answer.status_code in _PASSING:
        raise _NoReplyError(f"HTTP {answer.status_code}")
    if answer.status_code == 400 and _TOO_LONG in answer.text:
        return None
    if answer.status_code != 200:
        said = " ".join(answer.text.split())[:200]
        raise InputError(f"the judge at {client.base_url} refused: {answer.status_code} {said}")
    try:
        reply = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        raise _NoReplyError(f"HTTP 200 with {answer.text[:50]!r}, no chat completion") from None
    return str(reply)
