"""verl's rollout on CPUs: one server (`cpu_server.py`) per rank, each in its own process.

Depends on verl/workers/rollout/base.py (`BaseRollout`) and verl/workers/rollout/replica.py
(`RolloutReplica`).
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from rspo.training.verl.cpu_server import Server


class ServerAdapter(BaseRollout):
    """Runs in the rank: sends the actor's weights to its server."""

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: `release` has released nothing."""

    async def release(self) -> None:
        """Do nothing: a server on a CPU has nothing to release, see `Server.sleep`."""

    async def update_weights(
        self,
        weights: Generator[tuple[str, Tensor], None, None],
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        """Gather the weights and send them to this rank's server.

        Reading `weights` is a collective operation, so every rank must read all of them.
        """
        gathered = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        server = ray.get_actor(server_name(torch.distributed.get_rank()))
        await server.set_weights.remote(gathered, kwargs["global_steps"])


class Replica(RolloutReplica):
    """Runs in the driver: starts the server."""

    async def launch_servers(self) -> None:
        """Start the replica's server as a Ray actor, which its rank finds by its name."""
        server = ray.remote(Server).options(
            name=server_name(self.replica_rank), num_cpus=1, max_concurrency=self.max_concurrency
        )
        # verl tells servers apart by their addresses. This one has no HTTP address.
        self._server_address = server_name(self.replica_rank)
        self._server_handle: Any = server.remote(
            Path(self.model_config.path),
            self.config.response_length,
            self.config.seed,
        )
        self.servers = [self._server_handle]


def server_name(replica: int) -> str:
    """Name of a replica's actor in Ray."""
    return f"rspo_sampler_{replica}"
