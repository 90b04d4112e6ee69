"""A judge's server that accepts the output 7. It prints its GPU, environment and requests.

It does not start on the GPU "broken", and exits at the output "crash".
"""

import json
import os
import sys
import time
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

from tests.support.judge_server import Answer, Handler, reply

SECONDS_OF_A_REPLY = 0.02


class Judge(Handler):
    def answer(self, request: dict[str, Any]) -> Answer:
        prompt = request["messages"][0]["content"]
        print(f"prompt {json.dumps(request)}", flush=True)
        if "O crash " in prompt:
            print("RuntimeError: the GPU is lost", flush=True)
            os._exit(1)
        time.sleep(SECONDS_OF_A_REPLY)
        return reply("Correct" if "O 7 " in prompt else "Incorrect")


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    print(f"on GPU {gpu}: {' '.join(sys.argv[1:])}", flush=True)
    print(f"environment {json.dumps(dict(os.environ))}", flush=True)
    if gpu == "broken":
        sys.exit("RuntimeError: no such GPU")
    Server(sys.argv[sys.argv.index("--uds") + 1], Judge).serve_forever()
