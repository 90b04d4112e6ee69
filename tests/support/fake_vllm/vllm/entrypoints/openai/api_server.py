"""A judge's server that accepts the output 7. It prints its GPU, environment and requests.

It does not start on the GPU "broken", and exits at the output "crash".
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer

SECONDS_OF_A_REPLY = 0.02


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer("{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][0]["content"]
        print(f"prompt {json.dumps(request)}", flush=True)
        if "O crash " in prompt:
            print("RuntimeError: the GPU is lost", flush=True)
            os._exit(1)
        time.sleep(SECONDS_OF_A_REPLY)
        word = "Correct" if "O 7 " in prompt else "Incorrect"
        self.answer(json.dumps({"choices": [{"message": {"content": word}}]}))

    def answer(self, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    print(f"on GPU {gpu}: {' '.join(sys.argv[1:])}", flush=True)
    print(f"environment {json.dumps(dict(os.environ))}", flush=True)
    if gpu == "broken":
        sys.exit("RuntimeError: no such GPU")
    Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
