"""Starts vLLM servers with the judge model, which stop when the process that started them ends.

Each server listens on a Unix socket in a temporary folder, so it needs no free port, and other
users of the machine cannot reach it.
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
class JudgeServer:
    """A running server.

    socket: the Unix socket on which it listens.
    process: its supervisor, which exits with it.
    log: the file with its output.
    url: the beginning of the address of every request. Requests go to the socket, so the host name
        may be anything.
    """

    socket: Path
    process: "subprocess.Popen[bytes]"
    log: Path
    url = "http://judge"

    def check(self) -> None:
        """Raises: LostProcess with the last error in the log, if the server has exited."""
        if self.process.poll() is not None:
            raise LostProcess(f"the judge's server has exited: {last_error(self.log)}")


@contextlib.contextmanager
def serving(
    settings: XVerifySettings, log: Path, folder: Path | None = None, gpus: Sequence[str] = ()
) -> Iterator[list[JudgeServer]]:
    """Run servers during the block: one on each of `gpus`, or a single one. Yields them when ready.

    Args:
        log: file for the output of the server. With `gpus`, the name also has the server's number.
        folder: the model's files. Default: `settings.model`, a folder or a model of the hub.
        gpus: values of CUDA_VISIBLE_DEVICES. A server takes the fraction
            `settings.training_gpu_memory` of its GPU, which the policy uses too.

    Raises: InputError if vLLM is not installed, or if a server does not become ready in time.
    """
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a judge's server needs vLLM: run `make setup-verl` (with GPUs: `make setup-gpu`), or "
            "set xverify.url to the address of a running server"
        )
    require_vllm_on_gpus()
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = [f"{name}={value}" for name, value in (VLLM | local_caches()).items()]
    command = ["env"] + variables + _command(settings, folder)
    commands = {log: command}  # by log file
    if gpus:
        # vLLM takes the last value of an option that occurs twice.
        memory = ["--gpu-memory-utilization", str(settings.training_gpu_memory)]
        commands = {}
        for number, gpu in enumerate(gpus):
            file = log.with_suffix(f".{number}.log")
            commands[file] = ["env", f"CUDA_VISIBLE_DEVICES={gpu}"] + command + memory
    with contextlib.ExitStack() as stack:
        servers = [_start(stack, file, words) for file, words in commands.items()]
        # A supervisor ends its server when its input closes. The stack runs what was added last
        # first, so it asks all servers to end before it waits for one of them.
        for server in servers:
            assert server.process.stdin is not None
            stack.callback(server.process.stdin.close)
        deadline = time.monotonic() + settings.start_seconds
        for server in servers:
            _wait_until_ready(server, deadline, settings.start_seconds)
        yield servers


def _command(settings: XVerifySettings, folder: Path | None) -> list[str]:
    """The command that starts a server, without its socket.

    It runs the module that `vllm serve` runs, because vLLM's CPU build does not have that command.
    """
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folder or settings.model)]
    if settings.revision and not folder:
        command += ["--revision", settings.revision]
    command += ["--served-model-name", settings.model]
    return command + list(settings.server_arguments)


def _start(stack: contextlib.ExitStack, log: Path, command: list[str]) -> JudgeServer:
    """Start a server without waiting until it is ready. The stack ends it."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rspo-")))
    socket = folder / "judge"
    output = stack.enter_context(log.open("a"))
    key = f"RSPO_JUDGE_{uuid4().hex}"
    running = supervised(command + ["--uds", str(socket)], key, folder, output)
    return JudgeServer(socket, stack.enter_context(running), log)


def _wait_until_ready(server: JudgeServer, deadline: float, seconds: float) -> None:
    """Wait until a server answers.

    Args:
        deadline: until when, as a value of `time.monotonic`.
        seconds: the time that the server had to start, for the message.

    Raises: InputError if the server exits or is not ready in time.
    """
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(server.socket))) as client:
        while time.monotonic() < deadline:
            try:
                server.check()
            # A server that exits while it starts usually has a wrong setting.
            except LostProcess as error:
                raise InputError(str(error)) from None
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{server.url}/health", timeout=5).status_code == 200:
                    return
            time.sleep(0.2)
    raise InputError(
        f"the judge's server was not ready after {seconds:g} seconds: {last_error(server.log)}"
    )


def last_error(log: Path) -> str:
    """The last line of a log with the text "Error", or else its last line; then the log's path."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    if errors:
        last = errors[-1]
    elif lines:
        last = lines[-1]
    else:
        last = "no output"
    return f"{last} (see {log})"
