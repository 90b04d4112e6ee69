"""A vLLM server with the judge model, which ends with whoever started it.

It listens on a Unix socket in a temporary folder: no port to collide with another job's, and
nothing that other users of the machine could reach.
"""

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError
from rspo.core.supervisor import supervised


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    socket: Path
    process: "subprocess.Popen[bytes]"
    log: Path
    url = "http://judge"  # the host's name means nothing: requests go to the socket

    def check(self) -> None:
        """Raises: InputError, with its last words, if it has ended."""
        if self.process.poll() is not None:
            raise InputError(f"the judge's server has ended: {last_words(self.log)}")


@contextlib.contextmanager
def serving(settings: XVerifySettings, log: Path, folder: Path | None = None) -> Iterator[Server]:
    """Run a server while the block runs.

    Args:
        log: gets everything that the server prints.
        folder: with the model's files; default: `settings.model`, a folder or in the hub's cache.

    Raises: InputError if the server ends or is not ready in time, with its last words.
    """
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a judge's server needs vLLM: `make setup-verl` (with GPUs: `make setup-gpu`), or "
            "name one by xverify.url"
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rspo-") as place, log.open("w") as words:
        socket = Path(place) / "judge"
        command, key = _command(settings, socket, folder), f"RSPO_JUDGE_{uuid4().hex}"
        with supervised(command, key, Path(place), words) as process:
            server = Server(socket, process, log)
            _wait_until_ready(server, settings.start_seconds)
            yield server


def _command(settings: XVerifySettings, socket: Path, folder: Path | None) -> list[str]:
    """`vllm serve` by its module: vLLM's CPU build has no such command."""
    revision = ["--revision", settings.revision] if settings.revision and not folder else []
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(folder or settings.model), *revision),
        *("--served-model-name", settings.model),
        *("--uds", str(socket)),
        *settings.server_arguments,
    ]


def _wait_until_ready(server: Server, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(server.socket))) as client:
        while time.monotonic() < deadline:
            server.check()
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{server.url}/health", timeout=5).status_code == 200:
                    return
            time.sleep(0.2)
    raise InputError(
        f"the judge's server was not ready after {seconds:g} seconds: {last_words(server.log)}"
    )


def last_words(log: Path) -> str:
    """The last line of a log that names an error, and where the rest stands."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return f"{(errors or lines or ['it said nothing'])[-1]} (see {log})"
