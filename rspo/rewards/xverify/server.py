"""A vLLM server with the judge model, which stops when the process that started it ends.

It listens on a Unix socket in a temporary folder, so that it needs no free port and other users of
the machine cannot reach it.
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
from rspo.core.gpus import require_vllm_on_gpus
from rspo.core.supervisor import supervised


@dataclass(frozen=True)
class Server:
    """A running server."""

    socket: Path
    process: "subprocess.Popen[bytes]"
    log: Path
    url = "http://judge"  # the host name is ignored: requests go to the socket

    def check(self) -> None:
        """Raises: InputError with the last error in the log, if the server has exited."""
        if self.process.poll() is not None:
            raise InputError(f"the judge's server has exited: {last_error(self.log)}")


@contextlib.contextmanager
def serving(settings: XVerifySettings, log: Path, folder: Path | None = None) -> Iterator[Server]:
    """Run a server during the block.

    Args:
        log: file for the output of the server.
        folder: the model's files. Default: `settings.model`, a folder or a model of the hub.

    Raises: InputError with the last error in the log, if the server exits or starts too slowly.
    """
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a judge's server needs vLLM: run `make setup-verl` (with GPUs: `make setup-gpu`), or "
            "set xverify.url to the address of a running server"
        )
    require_vllm_on_gpus()
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rspo-") as folder_of_socket, log.open("w") as output:
        socket = Path(folder_of_socket) / "judge"
        command, key = _command(settings, socket, folder), f"RSPO_JUDGE_{uuid4().hex}"
        with supervised(command, key, Path(folder_of_socket), output) as process:
            server = Server(socket, process, log)
            _wait_until_ready(server, settings.start_seconds)
            yield server


def _command(settings: XVerifySettings, socket: Path, folder: Path | None) -> list[str]:
    """The module behind `vllm serve`, because vLLM's CPU build does not have that command."""
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
        f"the judge's server was not ready after {seconds:g} seconds: {last_error(server.log)}"
    )


def last_error(log: Path) -> str:
    """The last line of a log with an error, and the path of the log."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return f"{(errors or lines or ['no output'])[-1]} (see {log})"
