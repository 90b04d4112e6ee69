"""The judge with its prompt, its server and its verdicts on disk."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import httpx

from rspo.config import XVerifySettings
from rspo.errors import InputError
from rspo.rewards.verdict import TOO_LONG, Verdict
from rspo.rewards.xverify.client import SAMPLING, ask_all, reason_of
from rspo.rewards.xverify.server import Server, serving
from rspo.rewards.xverify.store import VerdictStore


class XVerify:
    """Question, response and answer in, a verdict out; a context manager.

    A server of its own starts when the first verdict is asked for that is not on disk, and ends
    with the context.
    """

    def __init__(
        self, settings: XVerifySettings, template: str, verdicts: Path, server_log: Path
    ) -> None:
        """
        Args:
            template: upstream's prompt, with the fields question, output and answer.
            verdicts: file that keeps them (see `VerdictStore`).
            server_log: what the server prints, if one is started.

        Raises: InputError if another process has the file of verdicts open.
        """
        self._settings = settings
        self._template = template
        self._server_log = server_log
        self._stack = ExitStack()
        self._store = self._stack.enter_context(VerdictStore(verdicts))
        self._server: Server | None = None

    def __enter__(self) -> "XVerify":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def judge(
        self,
        questions: Sequence[str],
        responses: Sequence[str],
        answers: Sequence[tuple[str, ...]],
    ) -> list[Verdict]:
        """A verdict for each response, in order; the accepted forms of an answer are one answer.

        Raises: InputError if the server does not start, or gives no reply however often it is
            asked; every verdict that it gave is on disk by then.
        """
        prompts = [
            # What no UTF-8 can hold, such as half a surrogate pair, is no part of any answer.
            self._template.format(question=question, output=response, answer=" or ".join(forms))
            .encode(errors="replace")
            .decode()
            for question, response, forms in zip(questions, responses, answers, strict=True)
        ]
        keys = [self._key(prompt) for prompt in prompts]
        missing = {
            key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._store
        }
        if missing:
            try:
                asyncio.run(self._ask(missing))
            except InputError as error:
                safe = sum(key in self._store for key in missing)
                raise InputError(
                    f"{error}; {len(keys) - len(missing) + safe} of {len(keys)} verdicts are safe "
                    f"in {self._store.path}, and the same command asks only for the others"
                ) from None
        return [Verdict(self._store[key]) for key in keys]

    def _key(self, prompt: str) -> str:
        """Of everything that decides a verdict: the judge, and what it is asked."""
        judge = [self._settings.model, self._settings.revision, SAMPLING]
        return hashlib.sha256(json.dumps([judge, prompt]).encode()).hexdigest()

    async def _ask(self, prompts: dict[str, str]) -> None:
        url, transport, check = self._address()
        async with httpx.AsyncClient(
            base_url=url, transport=transport, timeout=self._settings.request_seconds
        ) as client:
            await ask_all(self._settings, prompts, client, check, self._keep)

    def _address(self) -> tuple[str, httpx.AsyncHTTPTransport | None, Callable[[], None]]:
        """Where the judge is: the server of the config, or one of our own."""
        if self._settings.url is not None:
            return self._settings.url, None, lambda: None
        if self._server is None:
            server = serving(self._settings, self._server_log)
            self._server = self._stack.enter_context(server)
        # Concurrency is limited by the number of tasks.
        limits = httpx.Limits(max_connections=None)
        transport = httpx.AsyncHTTPTransport(uds=str(self._server.socket), limits=limits)
        return self._server.url, transport, self._server.check

    def _keep(self, key: str, reply: str | None) -> None:
        self._store.add(key, TOO_LONG if reply is None else reason_of(reply), reply)
