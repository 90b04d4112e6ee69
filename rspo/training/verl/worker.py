"""verl's actor on one rank, with the learning rate schedule of the config.

Depends on verl/workers/engine_workers.py (the two classes below) and on
verl/workers/engine/fsdp/transformer_impl.py (the scheduler).
"""

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

from rspo.config.schema import Optimizer
from rspo.training.adam import learning_rate_factor
from rspo.training.verl.interface import require_parameters, require_source, require_version
from rspo.training.verl.optimizer import ScheduledOptimizerConfig
from rspo.training.verl.rollouts import register_rollouts

require_version()
require_parameters(FSDPEngineWithLMHead._build_lr_scheduler, "self", "optimizer")
require_parameters(TrainingWorker.__init__, "self", "config")
require_parameters(initialize_global_process_group_ray, "timeout_second", "backend")
require_source(initialize_global_process_group_ray, "if not torch.distributed.is_initialized()")
require_source(ActorRolloutRefWorker.init_model, "self.actor_worker_cls(")

# Needed in the driver and in every rank, which all import this module.
register_rollouts()


@EngineRegistry.register("language_model", "fsdp2", device="cpu", vendor="cpu")
@EngineRegistry.register("language_model", "fsdp2", device="cuda", vendor="nvidia")
class ScheduledEngine(FSDPEngineWithLMHead):
    """verl's FSDP2 engine with the learning rate schedule of the local engine."""

    def _build_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        config: ScheduledOptimizerConfig = self.optimizer_config
        settings = Optimizer(
            schedule=config.schedule,  # type: ignore[arg-type]  # pydantic checks it
            warmup_ratio=config.lr_warmup_steps_ratio,
            betas=tuple(config.betas),
            weight_decay=config.weight_decay,
        )
        updates = config.total_training_steps
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
    """verl's worker with the actor above.

    It cannot be named Worker: verl searches the base classes for its own class by that name.
    """

    @property
    def actor_worker_cls(self) -> Callable[..., Actor]:
        return partial(Actor, timeout=self.config.nccl_timeout)
