"""verl's actor on one rank, with the config's learning rate schedule and this package's rollouts.

Depends on verl/workers/engine_workers.py (base classes of `Actor` and `PolicyWorker`),
verl/workers/engine/fsdp/transformer_impl.py (the scheduler), and on verl/workers/rollout/base.py
and verl/workers/rollout/replica.py (registries).
"""

import importlib
from collections.abc import Callable
from functools import partial

import torch
from torch.optim.lr_scheduler import LambdaLR
from verl.utils.device import get_device_name
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from rspo.config.schema import Optimizer
from rspo.training.adam import learning_rate_factor
from rspo.training.verl.interface import require_version
from rspo.training.verl.optimizer import ScheduledOptimizerConfig

require_version()

# Value of actor_rollout_ref.rollout.name -> module with the classes ServerAdapter and Replica.
_ROLLOUTS = {
    "rspo_sampler": "rspo.training.verl.cpu_rollout",
    "vllm": "rspo.training.verl.vllm_rollout",  # instead of verl's own
}


def _replica(module: str) -> type[RolloutReplica]:
    replica: type[RolloutReplica] = importlib.import_module(module).Replica
    return replica


# The driver and every rank import this module, so all of them know the rollouts. The registries get
# names and functions instead of classes: a rollout is imported only where it is used, so CPUs need
# no vLLM.
for name, module in _ROLLOUTS.items():
    _ROLLOUT_REGISTRY[(name, "async")] = f"{module}.ServerAdapter"
    RolloutReplicaRegistry.register(name, partial(_replica, module))


# verl looks an engine up by device and vendor first, so it prefers this one to its own, which is
# registered for a device only.
@EngineRegistry.register("language_model", "fsdp2", device="cpu", vendor="cpu")
@EngineRegistry.register("language_model", "fsdp2", device="cuda", vendor="nvidia")
class ScheduledEngine(FSDPEngineWithLMHead):
    """verl's FSDP2 engine with the learning rate schedule of the local engine."""

    def _build_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        """Make PyTorch's scheduler, which multiplies the peak rate by a factor."""
        config: ScheduledOptimizerConfig = self.optimizer_config
        settings = Optimizer(
            schedule=config.schedule,  # type: ignore[arg-type]  # pydantic checks it
            warmup_ratio=config.lr_warmup_steps_ratio,
            betas=tuple(config.betas),
            weight_decay=config.weight_decay,
        )
        updates = config.total_training_steps
        # PyTorch calls the function with the number of updates that are done.
        return LambdaLR(optimizer, lambda done: learning_rate_factor(done / updates, settings))


class Actor(TrainingWorker):
    """verl's training worker, whose ranks wait for each other for a configured time.

    verl would use PyTorch's default, 10 minutes with NCCL, and ignore its own key nccl_timeout. On
    CPUs it would request "cpu:gloo,cpu:gloo", which PyTorch rejects.
    """

    def __init__(self, config: TrainingWorkerConfig, timeout: float) -> None:
        backend = "gloo" if get_device_name() == "cpu" else None
        initialize_global_process_group_ray(timeout_second=timeout, backend=backend)
        super().__init__(config)


class PolicyWorker(ActorRolloutRefWorker):
    """verl's worker with `Actor`.

    It cannot be named Worker: verl searches the base classes for its own class of that name.
    """

    @property
    def actor_worker_cls(self) -> Callable[..., Actor]:
        return partial(Actor, timeout=self.config.nccl_timeout)
