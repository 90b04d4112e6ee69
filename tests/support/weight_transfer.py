"""One cell's transfer of weights to a vLLM worker, in a Ray cluster of its own.

`python -m tests.support.weight_transfer CONFIG FOLDER NUMBER` writes NUMBER.json beside verl's
CONFIG: the addresses of the sending and the receiving socket, and the values that arrived. All
weights are NUMBER, and they are sent when the addresses of two cells are known. FOLDER is Ray's.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf

from rspo.core.files import write_text
from rspo.training.verl import ray_cluster as cluster


class Rank:
    """The part of a rank that sends weights."""

    def __init__(self, rollout: Any) -> None:
        os.environ.update(RANK="0", RAY_LOCAL_WORLD_SIZE="1")
        from verl.workers.rollout.base import get_rollout_class

        import rspo.training.verl.worker  # noqa: F401  # registers the rollouts

        self.adapter: Any = get_rollout_class("vllm")(rollout, {}, None)  # type: ignore[arg-type]

    def address(self) -> str:
        return str(self.adapter.zmq_handle)

    def send(self, number: int) -> None:
        from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

        sender = BucketedWeightSender(self.adapter.zmq_handle, bucket_size_mb=1, use_shm=True)
        weights = iter([("weight", torch.full((1000,), float(number)))])
        asyncio.run(sender.async_send_weights(weights))


class Worker:
    """The part of a vLLM worker that receives weights."""

    def __init__(self) -> None:
        import ray
        from verl.workers.rollout.replica import RolloutReplicaRegistry
        from vllm.utils.import_utils import resolve_obj_by_qualname

        import rspo.training.verl.worker  # noqa: F401

        os.environ["VERL_RAY_JOB_ID"] = ray.get_runtime_context().get_job_id()
        replica: Any = SimpleNamespace()
        server = server_class(RolloutReplicaRegistry.get("vllm"))
        extension = resolve_obj_by_qualname(server._get_worker_extension_cls(replica))
        self.worker: Any = object.__new__(extension)
        self.worker.local_rank, self.worker.model_runner = 0, SimpleNamespace()

    def address(self) -> str:
        return str(self.worker._get_zmq_handle())

    def receive(self) -> list[float]:
        from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import (
            BucketedWeightReceiver,
        )

        values: set[float] = set()

        def add(weights: list[tuple[str, torch.Tensor]], is_last: bool) -> None:
            for _, tensor in weights:
                values.update(tensor.tolist())

        receiver = BucketedWeightReceiver(self.address(), torch.device("cpu"), use_shm=True)
        receiver.receive_weights(add)
        return sorted(values)


def server_class(replica: Any) -> Any:
    """The class of the servers that a class of replicas starts."""
    from verl.workers.rollout.replica import RolloutReplica

    RolloutReplica.__init__ = lambda self, *arguments: None  # type: ignore[assignment]
    actor = replica(0, None, None).server_class
    return actor.__ray_metadata__.modified_class


def main(config_file: Path, folder: Path, number: int) -> None:
    config, results = OmegaConf.load(config_file), config_file.parent
    Path(config.trainer.default_local_dir).mkdir(parents=True)
    with cluster.head(config, folder, cluster.JobStep()):
        import ray  # after its environment is set

        config.actor_rollout_ref.rollout.name = "vllm"
        OmegaConf.resolve(config)
        rank = ray.remote(Rank).remote(config.actor_rollout_ref.rollout)
        worker = ray.remote(Worker).remote()
        result = {"addresses": ray.get([rank.address.remote(), worker.address.remote()])}
        write_text(results / f"{number}.address", result["addresses"][0])
        while len(files := list(results.glob("*.address"))) < 2:
            time.sleep(0.1)
        if len({file.read_text() for file in files}) == 2:
            sent, received = rank.send.remote(number), worker.receive.remote()
            result["received"] = ray.get([sent, received])[1]
        write_text(results / f"{number}.json", json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
