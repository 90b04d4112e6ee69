"""verl's vLLM servers, with the sockets for weights in a folder of the cell.

verl 0.9.1 creates the sockets in /tmp. Their names contain the id of the Ray job, which is the same
in every new Ray cluster. Two cells on one node would therefore remove each other's sockets, and a
file that another user left behind would block a name. Here the sockets are in the folder for
temporary files, which `ray_cluster.py` creates for each cell, and removes.

Depends on verl/workers/rollout/vllm_rollout: vllm_rollout.py, vllm_async_server.py, utils.py.
"""

from typing import Any

import ray
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout import ServerAdapter as VerlServerAdapter
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica
from vllm.sampling_params import RequestOutputKind

from rspo.training.verl.weight_sockets import WorkerExtension, in_own_folder


class ServerAdapter(VerlServerAdapter):
    """Runs in the rank: creates the socket and sends the weights."""

    zmq_handle: str  # address of the socket

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.zmq_handle = in_own_folder(self.zmq_handle)


class Server(vLLMHttpServer):
    """Starts vLLM, whose workers connect to the socket.

    vLLM's front end, one process per GPU, would turn every token into text and return every token
    on its own, which takes 43 us of this process's time per token. If it returns the token ids of a
    response together, without text, they take 12 us per token.
    """

    async def generate(self, **request: Any) -> TokenOutput:
        """Sample one response of token ids. Every caller passes its arguments by name."""
        ids_only = {"detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
        request["sampling_params"] = request["sampling_params"] | ids_only
        return await super().generate(**request)

    def _get_worker_extension_cls(self) -> str:
        # vLLM's workers import the class by this name, in their own processes.
        return f"{WorkerExtension.__module__}.{WorkerExtension.__qualname__}"


class Replica(vLLMReplica):
    """Runs in the driver: starts the server."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.server_class = ray.remote(Server)
