"""vLLM servers with the judge model, which stop when the process that started them ends.

Each listens on a Unix socket in a temporary folder, so that it needs no free port and other users
of the machine cannot reach it.
"""

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from rspo.config.schema import XVerifySettings
from rspo.core.environment import VLLM, local_caches
from rspo.core.errors import InputError, LostProcess
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
        """Raises: LostProcess with the last error in the log, if the server has exited."""
        if self.process.poll() is not None:
            raise LostProcess(f"the judge's server has exited: {last_error(self.log)}")


@contextlib.contextmanager
def serving(
    settings: XVerifySettings, log: Path, folder: Path | None = None, gpus: Sequence[str] = ()
) -> Iterator[list[Server]]:
    """Run servers during the block: one on each of `gpus`, or a single one.

    Args:
        log: file for the output of the server. With several, their numbers are added to its name.
        folder: the model's files. Default: `settings.model`, a folder or a model of the hub.
        gpus: values of CUDA_VISIBLE_DEVICES. A server takes `settings.training_gpu_memory` of its
            GPU, because the policy uses the same one.
    """
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a judge's server needs vLLM: run `make setup-verl` (with GPUs: `make setup-gpu`), or "
            "set xverify.url to the address of a running server"
        )
    require_vllm_on_gpus()
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = (f"{name}={value}" for name, value in (VLLM | local_caches()).items())
    command = ["env", *variables, *_command(settings, folder)]
    beside_the_policy = ["--gpu-memory-utilization", str(settings.training_gpu_memory)]
    commands = {
        log.with_suffix(f".{number}.log"): [
            *("env", f"CUDA_VISIBLE_DEVICES={gpu}", *command, *beside_the_policy)
        ]
        for number, gpu in enumerate(gpus)
    } or {log: command}
    with contextlib.ExitStack() as stack:
        servers = [_started(stack, *each) for each in commands.items()]
        for server in servers:  # ask all of them to end before waiting for the first
            assert server.process.stdin is not None
            stack.callback(server.process.stdin.close)
        deadline = time.monotonic() + settings.start_seconds
        for server in servers:
            _wait_until_ready(server, deadline, settings.start_seconds)
        yield servers


def _command(settings: XVerifySettings, folder: Path | None) -> list[str]:
    """The module behind `vllm serve`, because vLLM's CPU build does not have that command."""
    revision = ["--revision", settings.revision] if settings.revision and not folder else []
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(folder or settings.model), *revision),
        *("--served-model-name", settings.model),
        *settings.server_arguments,
    ]


def _started(stack: contextlib.ExitStack, log: Path, command: Sequence[str]) -> Server:
    socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rspo-"))) / "judge"
    output, key = stack.enter_context(log.open("a")), f"RSPO_JUDGE_{uuid4().hex}"
    running = supervised([*command, "--uds", str(socket)], key, socket.parent, output)
    return Server(socket, stack.enter_context(running), log)


def _wait_until_ready(server: Server, deadline: float, seconds: float) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(server.socket))) as client:
        while time.monotonic() < deadline:
            try:
                server.check()
            except LostProcess as error:  # at its start, mostly because of a wrong setting
                raise InputError(str(error)) from None
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
