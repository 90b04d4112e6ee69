"""The socket for weights that verl adds to a vLLM worker (see vllm_rollout.py).

This module is separate because vLLM's workers import it, and they do not need verl's server.
"""

import tempfile
from pathlib import Path

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


def in_own_folder(address: str) -> str:
    """Move the address of a socket from /tmp to the folder for temporary files.

    `ipc:///tmp/NAME` becomes `ipc://FOLDER/NAME`. `ray_cluster.start` chooses the folder.
    """
    return f"ipc://{Path(tempfile.gettempdir()) / Path(address).name}"


class WorkerExtension(vLLMColocateWorkerExtension):
    """verl's methods of a vLLM worker, with the socket in the cell's folder."""

    def _get_zmq_handle(self) -> str:
        # `ServerAdapter` (vllm_rollout.py) must compute the same address for the other end.
        return in_own_folder(super()._get_zmq_handle())
