"""Asking the judge over an OpenAI-compatible API: many requests at a time, each until answered.

Settings and parsing are upstream's (IAAR-Shanghai/xVerify, src/xVerify/model.py and eval.py): one
user message, temperature 0.1, top-p 0.7, at most 2,048 tokens; a reply counts only if it is
exactly "correct" or "incorrect", spaces around it and case aside, and every other one as wrong.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import tenacity

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError
from rspo.rewards.verdict import CORRECT, INCORRECT, INVALID_REPLY, NO_REPLY, REFUSED

SAMPLING = {"temperature": 0.1, "top_p": 0.7, "max_tokens": 2048}
# HTTP statuses of a server that may answer the next time: timeouts, too many requests, failures.
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504}


class _RefusedError(Exception):
    """This prompt will never get a reply."""


class _NoReplyError(Exception):
    """This try got none; the next one may."""


def reason_of(reply: str) -> str:
    """The verdict that a reply of the judge stands for."""
    word = reply.strip().lower()
    return {"correct": CORRECT, "incorrect": INCORRECT}.get(word, INVALID_REPLY)


@dataclass(frozen=True)
class Judge:
    """A server that is asked.

    client: with the server's address.
    check: raises InputError if the server has ended.
    """

    settings: XVerifySettings
    client: httpx.AsyncClient
    check: Callable[[], None]


async def ask_all(
    judge: Judge, prompts: Mapping[str, str], keep: Callable[[str, str, str], None]
) -> None:
    """Ask every prompt, `concurrent_requests` at a time.

    A prompt that is refused, or gets no reply for `retry_seconds`, costs only itself as long as
    the judge answers another one that it is asked then.

    Args:
        prompts: by key, in hex; the key is the seed of the reply too.
        keep: gets each key with the reason of its verdict and the reply, as they come.

    Raises: InputError as soon as the judge answers nothing any more.
    """
    waiting = iter(prompts.items())
    count = min(judge.settings.concurrent_requests, len(prompts))
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(_ask_in_turn(judge, waiting, keep))
    except* InputError as errors:
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
    return {"model": settings.model, "messages": [message], **SAMPLING}


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
    """Raises: InputError, telling of the error, if not even the shortest prompt is answered."""
    request = _request(judge.settings, "1") | {"max_tokens": 1}
    try:
        await _ask_once(judge.client, request)
    except (_NoReplyError, _RefusedError):
        raise InputError(f"the judge at {judge.client.base_url} {error}") from None


async def _ask_once(client: httpx.AsyncClient, request: dict[str, Any]) -> str:
    """One request's reply.

    Raises: _NoReplyError if another try may help, _RefusedError if none will.
    """
    try:
        answer = await client.post("v1/chat/completions", json=request)
    except httpx.TransportError as error:
        raise _NoReplyError(f"gave no reply: {error or type(error).__name__}") from None
    said = " ".join(answer.text.split())[:200]
    if answer.status_code in _PASSING:
        raise _NoReplyError(f"gave no reply: HTTP {answer.status_code} {said}")
    if answer.status_code != 200:
        raise _RefusedError(f"refused: HTTP {answer.status_code} {said}")
    try:
        return str(answer.json()["choices"][0]["message"]["content"])
    except (ValueError, LookupError, TypeError):
        raise _NoReplyError(f"gave no chat completion: HTTP 200 {said}") from None
