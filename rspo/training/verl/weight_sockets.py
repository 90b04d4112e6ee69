"""The socket for weights that verl adds to a vLLM worker (see vllm_rollout.py).

A module of its own, because vLLM's workers import it, and need not import verl's server.
"""

import tempfile
from pathlib import Path

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


def in_own_folder(address: str) -> str:
    """`ipc:///tmp/NAME` -> `ipc://FOLDER/NAME`, where FOLDER is the folder for temporary files."""
    return f"ipc://{Path(tempfile.gettempdir()) / Path(address).name}"


class WorkerExtension(vLLMColocateWorkerExtension):
    """verl's methods of a vLLM worker, with the socket in the cell's folder."""

    def _get_zmq_handle(self) -> str:
        return in_own_folder(super()._get_zmq_handle())
