"""verl's actor on one rank, with the config's learning rate schedule and this package's rollouts.

Depends on verl/workers/engine_workers.py (base classes of `Actor` and `PolicyWorker`),
verl/workers/engine/fsdp/transformer_impl.py (the scheduler; `get_per_tensor_param` calls the
model's `state_dict` and gathers each weight afterwards), on the list of a checkpoint's contents in
verl/utils/checkpoint/checkpoint_manager.py, and on verl/workers/rollout/base.py and
verl/workers/rollout/replica.py (registries).
"""

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from verl.single_controller.base.decorator import Dispatch, register
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


POLICY = "hf_model"  # in verl's list of what a checkpoint contains

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
    """verl's FSDP2 engine with the learning rate schedule of the local engine.

    sampling_dtype: the type to which weights are cast before they are gathered for the servers;
        None leaves the actor's type, float32. A server would cast the same values to the same
        numbers, but only after twice as many bytes were gathered and copied.
    """

    sampling_dtype: torch.dtype | None = None

    def get_per_tensor_param(self, *arguments: Any, **options: Any) -> tuple[Iterator[Any], Any]:
        """The weights for the servers: pairs of name and full tensor, and verl's LoRA settings."""
        if self.sampling_dtype is None or _is_mixture_of_experts(self.model_config.hf_config):
            found: tuple[Iterator[Any], Any] = super().get_per_tensor_param(*arguments, **options)
            return found
        hook = self.module.register_state_dict_post_hook(partial(_cast, self.sampling_dtype))
        try:
            found = super().get_per_tensor_param(*arguments, **options)
        finally:
            hook.remove()  # checkpoints keep the actor's type
        return found

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


def _cast(dtype: torch.dtype, module: torch.nn.Module, state: dict[str, Tensor], *_: Any) -> None:
    """Cast this rank's shard of each weight, in place of its entry in the `state` of a module."""
    for name, weight in state.items():
        if isinstance(weight, DTensor) and weight.is_floating_point():
            state[name] = weight.to(dtype)


def _is_mixture_of_experts(config: Any) -> bool:
    """Whether a model has experts; servers may keep the float32 weights of what chooses them.

    Args:
        config: the model's configuration of transformers.
    """
    keys = ("num_experts", "num_local_experts", "n_routed_experts")
    return any(getattr(config, key, None) for key in keys)


def sampling_dtype_of(rollout: DictConfig) -> torch.dtype | None:
    """The type in which the servers of verl's section `rollout` keep the weights.

    Returns: None if the section leaves the type to the server, or if the server quantizes: it would
        then make other numbers from weights that were rounded before.
    """
    if rollout.dtype == "auto" or rollout.get("quantization") is not None:
        return None
    dtype: torch.dtype = getattr(torch, rollout.dtype)
    return dtype


class Actor(TrainingWorker):
    """verl's training worker, whose ranks wait for each other for a configured time.

    verl would use PyTorch's default, 10 minutes with NCCL, and ignore its own key nccl_timeout. On
    CPUs it would request "cpu:gloo,cpu:gloo", which PyTorch rejects.
    """

    def __init__(
        self, config: TrainingWorkerConfig, timeout: float, sampling_dtype: torch.dtype | None
    ) -> None:
        """`timeout` is in seconds; `sampling_dtype` is that of `ScheduledEngine`."""
        backend = "gloo" if get_device_name() == "cpu" else None
        initialize_global_process_group_ray(timeout_second=timeout, backend=backend)
        super().__init__(config)
        self.engine.sampling_dtype = sampling_dtype


class PolicyWorker(ActorRolloutRefWorker):
    """verl's worker with `Actor`.

    It cannot be named Worker: verl searches the base classes for its own class of that name.
    """

    @property
    def actor_worker_cls(self) -> Callable[..., Actor]:
        return partial(
            Actor,
            timeout=self.config.nccl_timeout,
            sampling_dtype=sampling_dtype_of(self.config.rollout),
        )

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_policy_in_checkpoints(self, included: bool) -> None:
        """Set whether later checkpoints contain the policy, as a Hugging Face folder.

        Only that of the last step becomes the cell's policy. Rank 0 gathers and writes it, 30 GB
        for 7B, while the other GPUs wait.
        """
        contents = list(self.config.actor.checkpoint.save_contents)
        if not included:
            contents.remove(POLICY)
        self.actor.engine.checkpoint_manager.checkpoint_save_contents = contents
