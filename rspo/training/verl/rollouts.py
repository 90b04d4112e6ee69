"""Registers this package's rollouts with verl.

Depends on verl/workers/rollout/base.py and verl/workers/rollout/replica.py, which have the
registries.
"""

import importlib
from functools import partial

from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

# Value of actor_rollout_ref.rollout.name -> module with the classes ServerAdapter and Replica.
_MODULES = {
    "rspo_sampler": "rspo.training.verl.cpu_rollout",
    "vllm": "rspo.training.verl.vllm_rollout",  # instead of verl's own
}


def register_rollouts() -> None:
    """Register both classes of each module, which verl imports only if it needs them."""
    for name, module in _MODULES.items():
        _ROLLOUT_REGISTRY[(name, "async")] = f"{module}.ServerAdapter"
        RolloutReplicaRegistry.register(name, partial(_replica, module))


def _replica(module: str) -> type[RolloutReplica]:
    replica: type[RolloutReplica] = importlib.import_module(module).Replica
    return replica
