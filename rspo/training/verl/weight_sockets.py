"""What verl adds to a vLLM worker: the socket for weights (see vllm_rollout.py), and reading them.

A module of its own, because vLLM's workers import it, and need not import verl's server.
"""

import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from rspo.training.verl.interface import require_source

require_source(vLLMColocateWorkerExtension.update_weights_from_ipc, "self._get_zmq_handle()")


def in_own_folder(address: str) -> str:
    """`ipc:///tmp/NAME` -> `ipc://FOLDER/NAME`, where FOLDER is the folder for temporary files."""
    return f"ipc://{Path(tempfile.gettempdir()) / Path(address).name}"


class SavesWeights:
    """A method of a vLLM worker for `collective_rpc`."""

    model_runner: Any  # set by vLLM's worker

    def save_weights(self, file: str) -> None:
        """Write the weights, under vLLM's names, as safetensors. Only one worker may have them."""
        named = self.model_runner.get_model().named_parameters()
        save_file({name: weight.detach().cpu().contiguous() for name, weight in named}, file)


class WorkerExtension(SavesWeights, vLLMColocateWorkerExtension):
    """verl's methods of a vLLM worker, with the socket in the cell's folder."""

    def _get_zmq_handle(self) -> str:
        return in_own_folder(super()._get_zmq_handle())
