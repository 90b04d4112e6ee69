"""The result of a training, and the line of training.jsonl for each of its steps."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config.schema import Optimizer
from rspo.estimators import pass_at_k
from rspo.training.rewards import Scored

Record = dict[str, Any]  # one line of training.jsonl


@dataclass(frozen=True)
class Trained:
    """The result of an engine.

    records: the lines of training.jsonl, one per step.
    save: writes the trained weights into a folder that has the base policy's other files.
    files: further files of the cell, which get the policy's provenance.
    gpu_seconds: seconds times GPUs that this process used. A SLURM job ignores it, because SLURM
        counts the GPUs.
    notes: for the provenance, such as which problems were left out.
    """

    records: Sequence[Record]
    save: Callable[[Path], None]
    files: Sequence[Path] = ()
    gpu_seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


class Stopwatch:
    """Seconds of each phase of a step. The phases follow each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase, which began when the previous one ended."""
        now = time.perf_counter()
        self.seconds[phase] = now - self._started
        self._started = now


def record_of(
    step: int,
    scored: Scored,
    entropy: float,
    updates: list[dict[str, float]],
    seconds: dict[str, float],
    optimizer: Optimizer,
) -> Record:
    """The line of training.jsonl for one step. It counts all responses, even dropped ones.

    Args:
        step: counted from 0; the line counts from 1.
        entropy: mean over the step's tokens, in nats.
        updates: metrics of each update; the line has their means, and the fraction of updates
            whose gradient was clipped.
        seconds: duration of each phase by its name; the phase "sample" is required.
    """
    n = scored.weights.shape[1]
    tokens = int(scored.lengths.sum())
    limit = optimizer.gradient_clip or float("inf")
    correct_responses = scored.correct.sum(dim=1).numpy()  # number for each prompt
    powers_of_two = [2**power for power in range(n.bit_length())]  # up to n
    passed = {
        f"pass_at_{k}": float(np.mean(pass_at_k(n, correct_responses, k))) for k in powers_of_two
    }
    means_of_updates = {
        key: float(np.mean([update[key] for update in updates])) for key in updates[0]
    }
    clipped = [update["gradient_norm"] > limit for update in updates]
    return {
        "step": step + 1,
        "reward": scored.rewards.mean().item(),
        "correct": scored.correct.double().mean().item(),
        **passed,
        "entropy": entropy,
        "response_tokens": tokens / scored.lengths.numel(),
        "finished": scored.finished.float().mean().item(),
        "zero_weight": (scored.weights == 0).float().mean().item(),
        **means_of_updates,
        "gradient_clipped": float(np.mean(clipped)),
        "seconds": {phase: round(value, 4) for phase, value in seconds.items()},
        "tokens_per_second": round(tokens / seconds["sample"]),
    }
