"""The judge: prompt, server and stored verdicts."""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError
from rspo.rewards.verdict import NO_REPLY, REFUSED, Verdict
from rspo.rewards.xverify.client import SAMPLING, Judge, ask_all
from rspo.rewards.xverify.server import Server, serving
from rspo.rewards.xverify.store import VerdictStore

_log = logging.getLogger(__name__)
# Control tokens of the chat templates of Qwen, Llama, GLM, InternLM and Gemma. A server also parses
# them inside a message. A response could use them to end its turn, write the judge's reply itself
# and earn a reward.
_CONTROL_TOKEN = re.compile(r"<(?=\||/?(?:s|bos|eos|start_of_turn|end_of_turn)>)")


class XVerify:
    """Verifies responses with the judge model. Use it as a context manager.

    Unless the settings have a URL, the first verdict that is not on disk starts a server. The
    server stops when the context ends.
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
            template: prompt with the fields question, output and answer.
            verdicts: file of stored verdicts (see `VerdictStore`).
            server_log: file for the output of the server.
            folder: the model's files, for the server.

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

        Raises: InputError if the server does not start or stops answering. All verdicts received
            until then are on disk.
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
        """Hash of everything that decides a verdict: the judge and the prompt."""
        judge = [self._settings.model, self._settings.revision, SAMPLING]
        return hashlib.sha256(json.dumps([judge, prompt]).encode()).hexdigest()

    def _ask(self, prompts: dict[str, str]) -> dict[str, str]:
        """Store verdicts on these prompts. Return the reason for each prompt without a verdict."""
        unanswered = {}

        def keep(key: str, reason: str, reply: str) -> None:
            if reason in (NO_REPLY, REFUSED):  # a later run may get a reply
                unanswered[key] = reason
                _log.warning("the judge %s; this response counts as wrong", reply)
            else:
                self._store.add(key, reason, reply)

        try:
            asyncio.run(self._ask_all(prompts, keep))
        except InputError as error:
            raise InputError(
                f"{error}; {len(self._store)} verdicts are stored in {self._store.path}; run "
                "the same command again to request the others"
            ) from None
        return unanswered

    async def _ask_all(
        self, prompts: dict[str, str], keep: Callable[[str, str, str], None]
    ) -> None:
        url, socket, check = self._address()
        # The number of tasks limits the requests. An explicit transport ignores proxy settings.
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=url,
            transport=httpx.AsyncHTTPTransport(uds=socket, limits=limits),
            timeout=self._settings.request_seconds,
        ) as client:
            await ask_all(Judge(self._settings, client, check), prompts, keep)

    def _address(self) -> tuple[str, str | None, Callable[[], None]]:
        """URL, socket and check of the server in the config, or of a server started here."""
        if self._settings.url is not None:
            return self._settings.url, None, lambda: None
        if self._server is None:
            server = serving(self._settings, self._server_log, self._folder)
            self._server = self._stack.enter_context(server)
        return self._server.url, str(self._server.socket), self._server.check


def _as_text(text: str) -> str:
    """The text without control tokens and without characters that UTF-8 cannot encode."""
    return _CONTROL_TOKEN.sub("< ", text).encode(errors="replace").decode()
