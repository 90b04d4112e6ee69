"""prime-rl: algorithms that score a group of episodes."""

import asyncio
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

MODULES = {"GRPOAlgorithm": "grpo", "MaxRLAlgorithm": "max_rl"}


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    module = importlib.import_module(f"prime_rl.orchestrator.algo.{MODULES[function]}")
    assigned: dict[int, float] = {}

    def assign(trace: Any, advantage: float) -> None:
        """Keep the advantage; prime-rl would write it to the tokens of the trace."""
        assigned[trace.place] = advantage

    module.assign_advantages = assign
    algorithm = getattr(module, function)(SimpleNamespace(**settings), None)

    def of_group(group: Any) -> list[float]:
        traces = []
        for place, reward in enumerate(group.tolist()):
            trace = SimpleNamespace(place=place, reward=reward, has_error=False)
            trace.agent = SimpleNamespace(trainable=True)
            trace.nodes = [SimpleNamespace(mask=[True])]
            traces.append(trace)
        asyncio.run(algorithm.score_group([SimpleNamespace(traces=traces)]))
        return [assigned[place] for place in range(len(traces))]

    def computed(rewards: Any, k: int) -> Any:
        groups = rewards.reshape(-1, rewards.shape[-1])
        found = [of_group(group) for group in groups]
        return np.array(found, dtype=np.float32).reshape(rewards.shape)

    return computed
