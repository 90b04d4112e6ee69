"""The judge: prompt, servers and stored verdicts."""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import httpx

from rspo.config.names import JUDGE_SAMPLING
from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError, LostProcess
from rspo.rewards.verdict import NO_REPLY, REFUSED, Verdict
from rspo.rewards.xverify.client import Judge, ask_all
from rspo.rewards.xverify.server import Server, serving
from rspo.rewards.xverify.store import VerdictStore

_log = logging.getLogger(__name__)
# Control tokens of the chat templates of Qwen, Llama, GLM, InternLM and Gemma. A server also parses
# them inside a message. A response could use them to end its turn, write the judge's reply itself
# and earn a reward.
_CONTROL_TOKEN = re.compile(r"<(?=\||/?(?:s|bos|eos|start_of_turn|end_of_turn)>)")


class XVerify:
    """Verifies responses with the judge model. Use it as a context manager.

    Unless the settings have a URL, it starts its own servers, which stop when the context ends: one
    for the first verdict that is not on disk, or one on each of some GPUs at once.
    """

    def __init__(
        self,
        settings: XVerifySettings,
        template: str,
        verdicts: Path,
        server_log: Path,
        folder: Path | None = None,
        gpus: Sequence[str] = (),
    ) -> None:
        """
        Args:
            template: prompt with the fields question, output and answer.
            verdicts: file of stored verdicts (see `VerdictStore`).
            server_log, folder, gpus: for the servers, see `serving`.

        Raises: InputError if another process has the file of verdicts open.
        """
        self._settings = settings
        self._template = template
        self._server_log = server_log
        self._folder, self._gpus = folder, gpus
        self._stack = ExitStack()
        self._store = self._stack.enter_context(VerdictStore(verdicts))
        self._servers: list[Server] = []

    def __enter__(self) -> "XVerify":
        if self._gpus and self._settings.url is None:
            self._start()
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
            All verdicts received until then are on disk.
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
        judge = [self._settings.model, self._settings.revision, JUDGE_SAMPLING]
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
        except (InputError, LostProcess) as error:
            raise type(error)(
                f"{error}; {len(self._store)} verdicts are stored in {self._store.path}"
            ) from None
        return unanswered

    async def _ask_all(
        self, prompts: dict[str, str], keep: Callable[[str, str, str], None]
    ) -> None:
        async with AsyncExitStack() as stack:
            judges = [
                Judge(self._settings, await stack.enter_async_context(client), check)
                for client, check in self._clients()
            ]
            await ask_all(judges, prompts, keep)

    def _clients(self) -> list[tuple[httpx.AsyncClient, Callable[[], None]]]:
        """A client and a check of the server in the config, or of each server started here."""
        if self._settings.url is not None:
            return [(self._client(self._settings.url), lambda: None)]
        if not self._servers:
            self._start()
        return [(self._client(each.url, str(each.socket)), each.check) for each in self._servers]

    def _client(self, url: str, socket: str | None = None) -> httpx.AsyncClient:
        # The number of tasks limits the requests. An explicit transport ignores proxy settings.
        # A Unix socket needs no certificates, and a new connection to it takes less time than
        # httpx's search for an idle one: 1.5 instead of 5 ms per request.
        kept = 0 if socket else None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
        transport = httpx.AsyncHTTPTransport(uds=socket, limits=limits, verify=not socket)
        timeout = self._settings.request_seconds
        return httpx.AsyncClient(base_url=url, transport=transport, timeout=timeout)

    def _start(self) -> None:
        servers = serving(self._settings, self._server_log, self._folder, self._gpus)
        self._servers = self._stack.enter_context(servers)


def _as_text(text: str) -> str:
    """The text without control tokens and without characters that UTF-8 cannot encode."""
    return _CONTROL_TOKEN.sub("< ", text).encode(errors="replace").decode()
