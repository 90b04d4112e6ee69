"""Asks the judge: prompts, concurrent requests with retries, and stored verdicts.

Requests and parsing follow the authors (IAAR-Shanghai/xVerify, src/xVerify/model.py and eval.py):
one user message, temperature 0.1, top-p 0.7, at most 2,048 tokens. A reply is valid only if it is
"correct" or "incorrect", ignoring case and surrounding spaces. An invalid reply counts as wrong.

The authors leave `top_k` and the repetition penalty to the server, and vLLM takes them from the
judge's generation_config.json. This package sends values that turn both off, for two reasons. The
penalty would change the odds of the two possible replies, which are words of the prompt. And the
key of a stored verdict would not contain what that file says.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import tenacity

from rspo.config.names import JUDGE_SAMPLING
from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError, LostProcess
from rspo.rewards.verdict import (
    CORRECT,
    INCORRECT,
    INVALID_REPLY,
    NO_REPLY,
    REFUSED,
    Verdict,
)
from rspo.rewards.xverify.server import JudgeServer, serving

_log = logging.getLogger(__name__)
# The beginning of a control token in the chat templates of Qwen, Llama, GLM, InternLM and Gemma:
# "<|", "<s>", "</s>" and so on. A server parses them even inside a message, so a response could
# end its turn, write the judge's reply itself, and earn a reward.
_CONTROL_TOKEN = re.compile(r"<(?=\||/?(?:s|bos|eos|start_of_turn|end_of_turn)>)")
# HTTP statuses after which a retry may succeed: timeouts, too many requests, server errors.
_RETRIABLE_STATUSES = {408, 409, 425, 429, 500, 502, 503, 504}
_STORED_CHARACTERS = 200  # stored characters of a reply; a valid reply is one word


class _Endpoint(NamedTuple):
    """A server to which requests are sent.

    client: sends requests to it.
    check: raises LostProcess if this process started the server and the server has exited.
    """

    client: httpx.AsyncClient
    check: Callable[[], None]


class XVerify:
    """Verifies responses with the judge model. Use it as a context manager.

    Verdicts are stored in a file, one JSON object per line in order of arrival, so that no request
    is repeated. A killed process may leave an incomplete last line, which the next process removes.

    Unless the settings have the URL of a running server, it starts its own servers, which stop when
    the context ends. With `gpus`, one server starts on each GPU when the context begins. Otherwise
    a single server starts when a verdict is needed that is not stored.
    """

    def __init__(
        self,
        settings: XVerifySettings,
        template: str,
        verdicts: Path,
        folder: Path | None = None,
        gpus: Sequence[str] = (),
    ) -> None:
        """Open the file of stored verdicts and read it.

        Args:
            template: prompt with the fields question, output and answer.
            verdicts: file of stored verdicts. The log of the servers is written next to it.
            folder, gpus: arguments for `serving`, which starts the servers.
        """
        self._settings = settings
        self._template = template
        self._folder = folder
        self._gpus = gpus
        self._servers: list[JudgeServer] = []
        self._path = verdicts
        verdicts.parent.mkdir(parents=True, exist_ok=True)
        self._stack = contextlib.ExitStack()
        # "a+" reads the file and appends to it, and creates it if necessary.
        self._file = self._stack.enter_context(verdicts.open("a+"))
        self._stored = self._read()

    def __enter__(self) -> "XVerify":
        if self._gpus:
            self._start_servers()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judge(
        self,
        questions: Sequence[str],
        responses: Sequence[str],
        answers: Sequence[tuple[str, ...]],
    ) -> list[Verdict]:
        """A verdict for each response, in order.

        The judge sees the accepted forms of an answer joined by "or". If it refuses a prompt or
        does not reply to it, only that response is affected.

        Raises: InputError if a server does not start or stops answering, LostProcess if it exits.
            All verdicts received until then are stored.
        """
        prompts = [
            self._template.format(
                question=_as_text(question),
                output=_as_text(response),
                answer=_as_text(" or ".join(forms)),
            )
            for question, response, forms in zip(questions, responses, answers, strict=True)
        ]
        keys = [self._key(prompt) for prompt in prompts]
        missing = {}  # equal prompts have the same key, so they are sent once
        for key, prompt in zip(keys, prompts, strict=True):
            if key not in self._stored:
                missing[key] = prompt
        # Reasons of failed requests are not stored, so they are in `reasons` only.
        reasons = self._ask(missing) if missing else {}
        return [Verdict(reasons.get(key) or self._stored[key]) for key in keys]

    def _key(self, prompt: str) -> str:
        """Hash of everything that decides a verdict: the judge and the prompt."""
        judge = [self._settings.model, self._settings.revision, JUDGE_SAMPLING]
        return hashlib.sha256(json.dumps([judge, prompt]).encode()).hexdigest()

    def _ask(self, prompts: dict[str, str]) -> dict[str, str]:
        """Ask the judge and store its replies. Returns the reason of each verdict, by key.

        Raises: InputError and LostProcess as `judge` does, with the number of stored verdicts.
        """
        try:
            return asyncio.run(self._ask_all(prompts))
        except (InputError, LostProcess) as error:
            raise type(error)(
                f"{error}; {len(self._stored)} verdicts are stored in {self._path}"
            ) from None

    async def _ask_all(self, prompts: dict[str, str]) -> dict[str, str]:
        """Send every prompt, with `concurrent_requests` requests to each server at a time.

        The next prompt goes to the first server with a free slot. A fixed server for each problem
        would reuse its prefix cache, but the prompts of a problem share only a tenth of their text,
        and servers would be idle.

        If a prompt is refused or gets no reply for `retry_seconds`, the judge gets a short test
        prompt. If the judge answers the test prompt, only the failed prompt has no verdict.

        Args:
            prompts: each prompt by its key, a hexadecimal hash that also gives the seed of the
                reply.

        Returns: the reason of each verdict, by key.

        Raises: InputError as soon as a server does not answer the test prompt either; LostProcess
            if it has exited.
        """
        waiting = iter(prompts.items())  # all tasks take the next prompt from here
        reasons: dict[str, str] = {}
        async with contextlib.AsyncExitStack() as stack:
            endpoints = self._endpoints()
            for endpoint in endpoints:
                await stack.enter_async_context(endpoint.client)
            slots = endpoints * self._settings.concurrent_requests  # endpoints in turn
            try:
                async with asyncio.TaskGroup() as tasks:
                    for endpoint in slots[: len(prompts)]:
                        tasks.create_task(self._ask_in_turn(endpoint, waiting, reasons))
            except* (InputError, LostProcess) as errors:
                # The first error cancels the other tasks, but some may have failed with it.
                raise errors.exceptions[0] from None
        return reasons

    async def _ask_in_turn(
        self, endpoint: _Endpoint, waiting: Iterator[tuple[str, str]], reasons: dict[str, str]
    ) -> None:
        """Send the waiting prompts one after the other; add each reason to `reasons`."""
        for key, prompt in waiting:
            try:
                reply = await self._reply(endpoint, prompt, seed=int(key[:8], 16))
            except _FailedError as error:  # not stored: a later run may get a reply
                await self._require_answers(endpoint, error)
                _log.warning("the judge %s; this response counts as wrong", error)
                reasons[key] = error.reason
            else:
                reasons[key] = reason_of(reply)
                self._store(key, reasons[key], reply)

    async def _require_answers(self, endpoint: _Endpoint, failure: "_FailedError") -> None:
        """Check that the judge answers a short prompt after another prompt has failed.

        Raises: InputError if it does not; LostProcess if its server has exited.
        """
        try:
            await self._reply(endpoint, "1", max_tokens=1)
        except _FailedError as other:
            endpoint.check()
            raise InputError(
                f"the judge at {endpoint.client.base_url} {failure}; and for the prompt '1' it "
                f"{other}"
            ) from None

    def _store(self, key: str, reason: str, reply: str) -> None:
        """Store a verdict in memory and in the file.

        The file is flushed, so that a killed process loses no verdict.
        """
        self._stored[key] = reason
        line = {"key": key, "verdict": reason, "reply": reply[:_STORED_CHARACTERS]}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    async def _reply(self, endpoint: _Endpoint, prompt: str, **more: int) -> str:
        """The reply to a prompt. Repeats the request, for up to `retry_seconds`, until it has one.

        Args:
            more: further fields of the request, such as the seed.

        Raises: _RefusedError or _NoReplyError.
        """
        message = {"role": "user", "content": prompt}
        request = {"model": self._settings.model, "messages": [message], **JUDGE_SAMPLING, **more}
        repeatedly = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_NoReplyError),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
            stop=tenacity.stop_after_delay(self._settings.retry_seconds),
            before_sleep=lambda _: endpoint.check(),
            reraise=True,
        )
        return await repeatedly(_ask_once, endpoint.client, request)

    def _read(self) -> dict[str, str]:
        """The stored reasons of verdicts, by key. Removes an incomplete last line from the file."""
        self._file.seek(0)
        reasons = {}
        complete_bytes = 0
        for line in self._file:
            if not line.endswith("\n"):
                break
            complete_bytes += len(line.encode())
            # A damaged line is ignored, so the judge gets its prompt again.
            with contextlib.suppress(ValueError, LookupError, TypeError):
                row = json.loads(line)
                reasons[row["key"]] = row["verdict"]
        self._file.truncate(complete_bytes)
        return reasons

    def _start_servers(self) -> None:
        """Start the servers, unless they run already or the settings have a URL."""
        if self._servers or self._settings.url is not None:
            return
        log = self._path.with_suffix(".server.log")
        servers = serving(self._settings, log, self._folder, self._gpus)
        self._servers = self._stack.enter_context(servers)

    def _endpoints(self) -> list[_Endpoint]:
        """The server at the URL of the settings, or the servers that this process starts."""
        if self._settings.url is not None:
            return [_Endpoint(self._client(self._settings.url), check=lambda: None)]
        self._start_servers()
        endpoints = []
        for server in self._servers:
            client = self._client(server.url, str(server.socket))
            endpoints.append(_Endpoint(client, server.check))
        return endpoints

    def _client(self, url: str, socket: str | None = None) -> httpx.AsyncClient:
        """A client for the server at a URL, or at a Unix socket."""
        # httpx needs no limit of connections, because the number of tasks limits the requests. It
        # ignores the proxy settings of the environment if it is given a transport.
        # A Unix socket needs no certificates, and a new connection to it takes less time than
        # httpx's search for an idle one: 1.5 instead of 5 ms per request.
        idle_connections = 0 if socket else None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=idle_connections)
        transport = httpx.AsyncHTTPTransport(uds=socket, limits=limits, verify=not socket)
        timeout = self._settings.request_seconds
        return httpx.AsyncClient(base_url=url, transport=transport, timeout=timeout)


def _as_text(text: str) -> str:
    """The text without control tokens and without characters that UTF-8 cannot encode."""
    return _CONTROL_TOKEN.sub("< ", text).encode(errors="replace").decode()


class _FailedError(Exception):
    """A request got no chat completion.

    reason: the reason of the verdict on the response that the judge should have judged.
    """

    reason: str


class _RefusedError(_FailedError):
    """The server refused a prompt, and would refuse it again."""

    reason = REFUSED


class _NoReplyError(_FailedError):
    """A request got no chat completion, but a retry may get one."""

    reason = NO_REPLY


def reason_of(reply: str) -> str:
    """The reason of the verdict in a reply of the judge: one of the constants of `verdict`."""
    word = reply.strip().lower()
    return {"correct": CORRECT, "incorrect": INCORRECT}.get(word, INVALID_REPLY)


async def _ask_once(client: httpx.AsyncClient, request: dict[str, object]) -> str:
    """Send a request once and return the reply of the judge.

    Raises: _RefusedError if a retry would fail too; _NoReplyError if a retry may succeed.
    """
    try:
        answer = await client.post("v1/chat/completions", json=request)
    except httpx.TransportError as error:
        raise _NoReplyError(f"gave no reply: {error or type(error).__name__}") from None
    text = " ".join(answer.text.split())  # in one line
    said = f"HTTP {answer.status_code} {text[:200]}"
    if answer.status_code in _RETRIABLE_STATUSES:
        raise _NoReplyError(f"gave no reply: {said}")
    if answer.status_code != 200:
        raise _RefusedError(f"refused: {said}")
    try:
        return str(answer.json()["choices"][0]["message"]["content"])
    except (ValueError, LookupError, TypeError):
        raise _NoReplyError(f"gave no chat completion: {said}") from None
