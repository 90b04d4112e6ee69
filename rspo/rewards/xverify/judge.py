"""The judge with its prompt, its server and its verdicts on disk."""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import httpx

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError
from rspo.rewards.verdict import NO_REPLY, REFUSED, Verdict
from rspo.rewards.xverify.client import SAMPLING, Judge, ask_all
from rspo.rewards.xverify.server import Server, serving
from rspo.rewards.xverify.store import VerdictStore

_log = logging.getLogger(__name__)
# How the chat templates of Qwen, Llama, GLM, InternLM and Gemma mark turns. A server reads such a
# mark as the token itself, also inside of a message: a response could end its own question, write
# the judge's reply and earn a reward with it.
_CONTROL_TOKEN = re.compile(r"<(?=\||/?(?:s|bos|eos|start_of_turn|end_of_turn)>)")


class XVerify:
    """Question, response and answer in, a verdict out; a context manager.

    A server of its own starts when the first verdict is asked for that is not on disk, and ends
    with the context.
    """

    def __init__(
        self,
        settings: XVerifySettings,
        template: str,
        verdicts: Path,
        server_log: Path,
        folder: Path | None = None,
    ) -> None:
        """
        Args:
            template: upstream's prompt, with the fields question, output and answer.
            verdicts: file that keeps them (see `VerdictStore`).
            server_log: what the server prints, if one is started.
            folder: with the model's files, for that server.

        Raises: InputError if another process has the file of verdicts open.
        """
        self._settings = settings
        self._template = template
        self._server_log = server_log
        self._folder = folder
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

        A prompt that the judge refuses, or to which it gives no reply however often it is asked,
        costs that response and no other.

        Raises: InputError if the server does not start, or answers nothing any more; every
            verdict that it gave is on disk by then.
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
        wanted = dict(zip(keys, prompts, strict=True))
        missing = {key: prompt for key, prompt in wanted.items() if key not in self._store}
        unanswered = self._ask(missing) if missing else {}
        return [Verdict(unanswered.get(key) or self._store[key]) for key in keys]

    def _key(self, prompt: str) -> str:
        """Of everything that decides a verdict: the judge, and what it is asked."""
        judge = [self._settings.model, self._settings.revision, SAMPLING]
        return hashlib.sha256(json.dumps([judge, prompt]).encode()).hexdigest()

    def _ask(self, prompts: dict[str, str]) -> dict[str, str]:
        """Put the judge's verdicts on these prompts into the store; why the others have none."""
        unanswered = {}

        def keep(key: str, reason: str, reply: str) -> None:
            if reason in (NO_REPLY, REFUSED):  # another server, or the same tomorrow, may answer
                unanswered[key] = reason
                _log.warning("the judge %s; this response counts as wrong", reply)
            else:
                self._store.add(key, reason, reply)

        try:
            asyncio.run(self._ask_all(prompts, keep))
        except InputError as error:
            raise InputError(
                f"{error}; {len(self._store)} verdicts are safe in {self._store.path}, and the "
                "same command asks only for the others"
            ) from None
        return unanswered

    async def _ask_all(
        self, prompts: dict[str, str], keep: Callable[[str, str, str], None]
    ) -> None:
        url, socket, check = self._address()
        # The number of tasks limits the requests; the server is asked past any proxy.
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=url,
            transport=httpx.AsyncHTTPTransport(uds=socket, limits=limits),
            timeout=self._settings.request_seconds,
        ) as client:
            await ask_all(Judge(self._settings, client, check), prompts, keep)

    def _address(self) -> tuple[str, str | None, Callable[[], None]]:
        """URL, socket and check of the server: that of the config, or one of our own."""
        if self._settings.url is not None:
            return self._settings.url, None, lambda: None
        if self._server is None:
            server = serving(self._settings, self._server_log, self._folder)
            self._server = self._stack.enter_context(server)
        return self._server.url, str(self._server.socket), self._server.check


def _as_text(text: str) -> str:
    """What the judge reads as text: no control token, and nothing that UTF-8 cannot hold."""
    # Half a surrogate pair, say, is no part of any answer.
    return _CONTROL_TOKEN.sub("< ", text).encode(errors="replace").decode()
