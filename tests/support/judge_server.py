"""A judge's server on a local port, whose replies a test defines."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rspo.config.schema import Upstream, XVerifySettings

TEMPLATE = "Q {question} | O {output} | A {answer}"
MODEL = "IAAR-Shanghai/xVerify-0.5B-I"
Answer = tuple[int, str]  # HTTP status, body


def settings(**changes: Any) -> XVerifySettings:
    """Settings of a judge, with a prompt that nothing fetches."""
    return XVerifySettings(
        prompt=Upstream(repository="upstream", commit="0" * 40),
        **{
            "model": MODEL,
            "start_seconds": 60,
            "concurrent_requests": 8,
            "request_seconds": 5,
            "retry_seconds": 2,
        }
        | changes,
    )


def reply(text: str) -> Answer:
    return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions by `answer`, and any GET."""

    protocol_version = "HTTP/1.1"

    def answer(self, request: dict[str, Any]) -> Answer:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.send(200, "{}")

    def do_POST(self) -> None:
        self.send(*self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

    def send(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Judge:
    """The received requests, and the function that answers them."""

    answer: Callable[[str], Answer]  # called with the prompt of a request
    requests: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the client closed the connection
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """Serve requests on a free local port while the block runs; the address of the server."""
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def running(answer: Callable[[str], Answer]) -> Iterator[Judge]:
    judge = Judge(answer)

    class JudgeHandler(Handler):
        def answer(self, request: dict[str, Any]) -> Answer:
            with judge.lock:
                judge.requests.append(request | {"path": self.path})
                judge.in_flight += 1
                judge.most_in_flight = max(judge.most_in_flight, judge.in_flight)
            answered = judge.answer(request["messages"][0]["content"])
            with judge.lock:
                judge.in_flight -= 1
            return answered

    with serving(JudgeHandler) as url:
        judge.url = url
        yield judge
